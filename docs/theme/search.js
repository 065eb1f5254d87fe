// Finds sections that hold every word that is typed. The index is a script beside this one: nothing is fetched.
(() => {
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const root = `${document.body.dataset.root}/`;
  const plain = (text) => text.toLowerCase().normalize("NFD").replace(/\p{Diacritic}/gu, "");
  const sections = (window.searchIndex || []).map(([url, page, heading, text]) => ({
    url, page, heading, text, title: plain(page), head: plain(heading), body: plain(text),
  }));

  const score = (section, words) => {
    let sum = 0;
    for (const word of words) {
      const here = (section.title.includes(word) ? 3 : 0) + (section.head.includes(word) ? 5 : 0);
      const often = section.body.split(word).length - 1;
      if (!here && !often) return 0;
      sum += here + Math.min(3, often);
    }
    return sum;
  };

  const excerpt = (section, word) => {
    const at = Math.max(0, section.body.indexOf(word) - 50);
    return (at ? "… " : "") + section.text.slice(at, at + 150) + " …";
  };

  const line = (section, word) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const title = document.createElement("b");
    const text = document.createElement("span");
    link.href = root + section.url;
    title.textContent = section.page === section.heading ? section.page : `${section.page}: ${section.heading}`;
    text.textContent = excerpt(section, word);
    link.append(title, text);
    item.append(link);
    return item;
  };

  const none = () => {
    const item = document.createElement("li");
    item.className = "none";
    item.textContent = "No page has all of these words.";
    return item;
  };

  const show = () => {
    const words = plain(input.value).split(/\s+/).filter(Boolean);
    const found = sections
      .map((section) => [score(section, words), section])
      .filter(([points]) => points)
      .sort((a, b) => b[0] - a[0])
      .slice(0, 12);
    list.replaceChildren(...(found.length ? found.map(([, section]) => line(section, words[0])) : [none()]));
    list.hidden = !words.length;
  };

  const move = (step) => {
    const links = [...list.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + step];
    (next || input).focus();
  };

  input.addEventListener("input", show);
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });
  document.addEventListener("keydown", (event) => {
    const inside = event.target.closest(".search");
    if (event.key === "/" && !inside) { input.focus(); event.preventDefault(); }
    if (event.key === "Escape") { list.hidden = true; input.blur(); }
    if (inside && event.key === "ArrowDown") { move(1); event.preventDefault(); }
    if (inside && event.key === "ArrowUp") { move(-1); event.preventDefault(); }
    if (event.key === "Enter" && event.target === input) { list.querySelector("a")?.click(); }
  });
  if (window.matchMedia("(max-width: 52rem)").matches) document.querySelector("nav .menu").open = false;
})();
