// Pages work without this script. It requests the forecast while the user types, and underlines what is refused.
// It builds no HTML from strings: the browser parses the server's documents without running their scripts.

const form = document.getElementById("ask");
const FORECAST_DELAY = 350, PREVIEW_DELAY = 700; // milliseconds after the last key press

function postForm(address, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.responseType = "document";
    request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => resolve({ status: request.status, page: request.response, wait: request.getResponseHeader("Retry-After") });
    request.onerror = reject;
    signal.addEventListener("abort", () => request.abort());
    request.send(new URLSearchParams(new FormData(form)).toString());
  });
}

function replacePart(page, id) {
  const received = page && page.getElementById(id);
  const current = document.getElementById(id);
  if (!received || !current) return null;
  const replacement = document.importNode(received, true);
  if (id === "forecast") { // keep the live region, so that screen readers announce its new content
    current.replaceChildren(...replacement.childNodes);
    for (const name of ["data-start", "data-letters"]) {
      if (replacement.hasAttribute(name)) current.setAttribute(name, replacement.getAttribute(name));
      else current.removeAttribute(name);
    }
    return current;
  }
  const openByTitle = new Map([...current.querySelectorAll("details")].map((details) => [details.firstElementChild.textContent, details.open]));
  for (const details of replacement.querySelectorAll("details")) {
    const wasOpen = openByTitle.get(details.firstElementChild.textContent);
    if (wasOpen !== undefined) details.open = wasOpen;
  }
  current.replaceWith(replacement);
  return replacement;
}

function enableLiveForecast() {
  const text = document.getElementById("sql"), underlay = document.getElementById("under");
  const state = document.getElementById("state");
  let timer = 0, running = new AbortController();

  function underline(start, letters) {
    const value = text.value, mark = document.createElement("mark");
    if (start < 0) { underlay.textContent = ""; return; }
    mark.textContent = value.slice(start, start + letters);
    underlay.replaceChildren(value.slice(0, start), mark, value.slice(start + letters) + "\n");
    underlay.scrollTop = text.scrollTop;
  }

  function markStale() {
    underline(-1);
    const forecast = document.getElementById("forecast");
    forecast.classList.add("stale");
    for (const button of forecast.querySelectorAll("button")) button.disabled = true;
  }

  async function requestForecast() {
    running.abort();
    running = new AbortController();
    const signal = running.signal;
    try {
      const { status, page, wait } = await postForm(form.dataset.forecast, signal);
      if (signal.aborted) return;
      if (status === 429) { timer = setTimeout(requestForecast, 1000 * (Number(wait) || 1)); return; }
      const forecast = replacePart(page, "forecast");
      if (!forecast) { state.textContent = "The forecast is not available: press Forecast to see why."; return; }
      forecast.classList.remove("stale");
      state.textContent = "";
      const start = Number(forecast.dataset.start ?? -1);
      text.toggleAttribute("aria-invalid", false);
      if (forecast.querySelector(".refused")) text.setAttribute("aria-invalid", "true");
      underline(start, Number(forecast.dataset.letters || 0));
      if (!text.value.trim()) { replacePart(page, "preview"); return; }
      timer = setTimeout(async () => {
        try {
          const preview = await postForm(form.dataset.preview, signal);
          if (!signal.aborted && preview.status === 200) replacePart(preview.page, "preview");
        } catch { /* requested again with the next key press */ }
      }, PREVIEW_DELAY);
    } catch {
      state.textContent = "The server does not answer.";
    }
  }

  function scheduleForecast() {
    clearTimeout(timer);
    running.abort();
    markStale();
    timer = setTimeout(requestForecast, FORECAST_DELAY);
  }

  for (const input of form.querySelectorAll("#sql, [name=epsilon], [name=within], [name=delta], [name=confidence]")) {
    input.addEventListener("input", scheduleForecast);
  }
  text.addEventListener("scroll", () => { underlay.scrollTop = text.scrollTop; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); document.getElementById("forecast-button").click(); }
  });
  for (const name of document.querySelectorAll("[data-insert]")) {
    if (name.closest("summary")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "insert";
    button.append(...name.cloneNode(true).childNodes);
    button.title = "Insert into the question";
    const plain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name.textContent);
    button.addEventListener("click", () => {
      text.focus();
      text.setRangeText(plain ? name.textContent : `"${name.textContent.replaceAll('"', '""')}"`, text.selectionStart, text.selectionEnd, "end");
      scheduleForecast();
    });
    name.replaceWith(button);
  }
}

if (form) enableLiveForecast();

// A form that spends is submitted once; if it is sent twice, the server charges it once as well.
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".spend")) return;
  const button = event.target.querySelector("button");
  if (event.target.dataset.sent) { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
  button.textContent = button.textContent.replace("Spend", "Spending") + " …";
  setTimeout(() => { button.disabled = true; }, 0);
});
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
