// Finds pages by whole words and their beginnings, as sfumato/manual/search.py does: all weights are in the index, which
// is a script beside this one. Nothing is fetched.
(() => {
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const root = `${document.body.dataset.root}/`;
  const MOST = 12;
  const index = window.searchIndex;
  const words = index.words.split(" ");
  const postings = index.postings.split(" ");
  const position = new Map(words.map((word, at) => [word, at]));
  const common = new Set(index.common);
  const pageOf = index.pages.flatMap(([, , , , sections], page) => Array(sections).fill(page));

  const anchorOf = (heading) =>
    heading.toLowerCase().replace(/[^a-z0-9_ -]/g, "").trim().replace(/[- ]+/g, "-");

  const tokenize = (text) =>
    (text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "").match(/[\p{L}\p{N}]+/gu) || [])
      .filter((word) => !/^\p{N}+$/u.test(word) && !common.has(word) && word.length <= index.maxLetters);

  const decode = (posting) => {
    let section = -1;
    return [...posting.matchAll(/([0-9a-z]*)([A-Z])/g)].map(([, step, letter]) => {
      section += step ? parseInt(step, 36) : 1;
      return [section, index.weights[letter.charCodeAt(0) - 65]];
    });
  };

  const firstAtLeast = (prefix) => {
    let [low, high] = [0, words.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (words[middle] < prefix) low = middle + 1; else high = middle;
    }
    return low;
  };

  const withPrefix = (prefix) => {
    if (prefix.length < index.shortestPrefix) return position.has(prefix) ? [position.get(prefix)] : [];
    const start = firstAtLeast(prefix);
    let end = start;
    while (end < words.length && words[end].startsWith(prefix)) end += 1;
    return Array.from({ length: end - start }, (_, at) => start + at);
  };

  const known = (word) => {
    const shortest = Math.max(index.shortestStem, word.length - index.maxEnding);
    for (let length = word.length; length === word.length || length >= shortest; length -= 1) {
      const found = withPrefix(word.slice(0, length));
      if (found.length) return found;
    }
    return [];
  };

  const matches = (word) => {
    const found = new Map();
    for (const at of known(word)) {
      const factor = words[at] === word || words[at] === `${word}s` ? index.exact : 1;
      for (const [section, weight] of decode(postings[at])) {
        found.set(section, Math.max(found.get(section) || 0, factor * weight));
      }
    }
    return found;
  };

  const synonymsIn = (query) => {
    const text = query.join(" ");
    const unfinished = query.length && query.at(-1).length >= index.shortestStem;
    return index.synonyms.filter(([phrase]) =>
      ` ${text} `.includes(` ${phrase} `) || ` ${text} `.includes(` ${phrase}s `) ||
      (unfinished && phrase.startsWith(text) && !phrase.slice(text.length).includes(" ")));
  };

  const scores = (query) => {
    const synonyms = synonymsIn(query);
    const [totals, covered] = [new Map(), new Map()];
    for (const word of new Set([...query, ...synonyms.flatMap(([, more]) => more)])) {
      const found = matches(word);
      const rarity = 32 - Math.clz32(Math.floor(index.sections.length / Math.max(1, found.size)));
      for (const [section, weight] of found) {
        totals.set(section, (totals.get(section) || 0) + weight * rarity);
        covered.set(section, (covered.get(section) || 0) + rarity);
      }
    }
    for (const [section, total] of totals) totals.set(section, total * covered.get(section));
    const top = Math.max(0, ...totals.values());
    const first = [...new Set(synonyms.flatMap(([, , sections]) => sections))];
    first.forEach((section, rank) => totals.set(section, 2 * top + first.length - rank));
    return totals;
  };

  // The best section of each page, the best page first.
  const search = (text) => {
    const found = scores(tokenize(text));
    const pages = new Set();
    return [...found.keys()]
      .sort((a, b) => found.get(b) - found.get(a) || a - b)
      .filter((section) => !pages.has(pageOf[section]) && pages.add(pageOf[section]))
      .map((section) => {
        const [heading, anchor = anchorOf(heading)] = index.sections[section];
        const [url, title, summary, group] = index.pages[pageOf[section]];
        return { url: `${url}#${anchor}`, title, heading, summary, group, score: found.get(section) };
      });
  };
  window.searchPages = search;

  const make = (tag, text, ...children) => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.append(...children);
    return element;
  };

  const line = (hit) => {
    const title = hit.heading ? `${hit.title}: ${hit.heading}` : hit.title;
    const link = make("a", "", make("b", title), make("span", hit.summary));
    link.href = root + hit.url;
    return make("li", "", link);
  };

  // Hits below the name of their group; the group of the best hit comes first.
  const grouped = (hits) => [...new Set(hits.map((hit) => hit.group))].flatMap((group) => {
    const heading = make("li", group || "More pages");
    heading.className = "group";
    return [heading, ...hits.filter((hit) => hit.group === group).map(line)];
  });

  const none = () => {
    const item = make("li", "No page has these words.");
    item.className = "none";
    return item;
  };

  const show = () => {
    const hits = search(input.value).slice(0, MOST);
    list.replaceChildren(...(hits.length ? grouped(hits) : [none()]));
    list.hidden = !input.value.trim();
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
  if (input.value) show(); // typed before the index was there
})();
