// Pages work without this. It asks for the forecast while somebody types, and underlines what is refused.
// It makes no HTML from text: what the server sends is parsed by the browser itself, which runs nothing of it.

const form = document.getElementById("ask");
const LATE = 350, LATER = 700; // milliseconds after the last key

function sent(address, signal) {
  return new Promise((told, failed) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.responseType = "document";
    request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => told({ status: request.status, page: request.response, wait: request.getResponseHeader("Retry-After") });
    request.onerror = failed;
    signal.addEventListener("abort", () => request.abort());
    request.send(new URLSearchParams(new FormData(form)).toString());
  });
}

function put(page, id) {
  const found = page && page.getElementById(id);
  const before = document.getElementById(id);
  if (!found || !before) return null;
  const made = document.importNode(found, true);
  if (id === "forecast") { // the region that is read aloud stays, what it says changes
    before.replaceChildren(...made.childNodes);
    for (const name of ["data-start", "data-letters"]) {
      if (made.hasAttribute(name)) before.setAttribute(name, made.getAttribute(name));
      else before.removeAttribute(name);
    }
    return before;
  }
  const open = new Map([...before.querySelectorAll("details")].map((each) => [each.firstElementChild.textContent, each.open]));
  for (const each of made.querySelectorAll("details")) {
    const known = open.get(each.firstElementChild.textContent);
    if (known !== undefined) each.open = known;
  }
  before.replaceWith(made);
  return made;
}

function live() {
  const text = document.getElementById("sql"), under = document.getElementById("under");
  const state = document.getElementById("state");
  let due = 0, running = new AbortController();

  function underline(start, letters) {
    const value = text.value, mark = document.createElement("mark");
    if (start < 0) { under.textContent = ""; return; }
    mark.textContent = value.slice(start, start + letters);
    under.replaceChildren(value.slice(0, start), mark, value.slice(start + letters) + "\n");
    under.scrollTop = text.scrollTop;
  }

  function stale() {
    underline(-1);
    const forecast = document.getElementById("forecast");
    forecast.classList.add("stale");
    for (const each of forecast.querySelectorAll("button")) each.disabled = true;
  }

  async function ask() {
    running.abort();
    running = new AbortController();
    const signal = running.signal;
    try {
      const { status, page, wait } = await sent(form.dataset.forecast, signal);
      if (signal.aborted) return;
      if (status === 429) { due = setTimeout(ask, 1000 * (Number(wait) || 1)); return; }
      const forecast = put(page, "forecast");
      if (!forecast) { state.textContent = "The forecast is not to be had: send the form to see why."; return; }
      forecast.classList.remove("stale");
      state.textContent = "";
      const start = Number(forecast.dataset.start ?? -1);
      text.toggleAttribute("aria-invalid", false);
      if (forecast.querySelector(".refused")) text.setAttribute("aria-invalid", "true");
      underline(start, Number(forecast.dataset.letters || 0));
      if (!text.value.trim()) { put(page, "preview"); return; }
      due = setTimeout(async () => {
        try {
          const more = await sent(form.dataset.preview, signal);
          if (!signal.aborted && more.status === 200) put(more.page, "preview");
        } catch { /* it is there again with the next key */ }
      }, LATER);
    } catch {
      state.textContent = "The server does not answer.";
    }
  }

  function soon() {
    clearTimeout(due);
    running.abort();
    stale();
    due = setTimeout(ask, LATE);
  }

  for (const each of form.querySelectorAll("#sql, [name=epsilon], [name=within], [name=delta], [name=confidence]")) {
    each.addEventListener("input", soon);
  }
  text.addEventListener("scroll", () => { under.scrollTop = text.scrollTop; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); document.getElementById("forecast-button").click(); }
  });
  for (const name of document.querySelectorAll("[data-insert]")) {
    if (name.closest("summary")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "insert";
    button.append(...name.cloneNode(true).childNodes);
    button.title = "Write it into the question";
    const plain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name.textContent);
    button.addEventListener("click", () => {
      text.focus();
      text.setRangeText(plain ? name.textContent : `"${name.textContent.replaceAll('"', '""')}"`, text.selectionStart, text.selectionEnd, "end");
      soon();
    });
    name.replaceWith(button);
  }
}

if (form) live();

// What spends is sent once by this page; sent twice, the server takes it once, too.
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".spend")) return;
  const button = event.target.querySelector("button");
  if (event.target.dataset.sent) { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
  button.textContent = button.textContent.replace("Spend", "Spending") + " …";
  setTimeout(() => { button.disabled = true; }, 0);
});
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
