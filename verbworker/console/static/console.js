// A page that stays as things are: when the server says that something changed, its live parts are loaded again.
// Without this file every page can be read and every form works.
"use strict";

(() => {
  const topic = document.body.dataset.topic;
  if (!topic || !window.EventSource || !window.fetch) {
    return;
  }
  const news = document.getElementById("news");
  let source = null;
  let isLoading = false;
  let isDue = false;
  let wasLost = false;

  // Whether a field in the region has the focus: replacing it would discard what was typed.
  function isInUse(region) {
    const at = document.activeElement;
    if (at && at !== document.body && region.contains(at) && !at.matches("a")) {
      return true;
    }
    const fields = [...region.querySelectorAll("input:not([type=hidden]), textarea")];
    return fields.some((field) => field.value !== field.defaultValue);
  }

  function replace(region, fresh) {
    const at = document.activeElement;
    const link = at && region.contains(at) ? at.getAttribute("href") : null;
    region.replaceChildren(...document.importNode(fresh, true).childNodes);
    if (link !== null) {
      [...region.querySelectorAll("a")].find((one) => one.getAttribute("href") === link)?.focus();
    }
  }

  // A part that the page did not have when it was opened, such as the picture of a case that had not started.
  function isLacking(page) {
    return [...page.querySelectorAll("[data-live]")].some((fresh) => !document.getElementById(fresh.id));
  }

  function show(page) {
    if (isLacking(page) && !isInUse(document.body)) {
      location.reload();
      return;
    }
    let isHeldBack = false;
    for (const region of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(region.id);
      if (!fresh || fresh.innerHTML === region.innerHTML) {
        continue;
      }
      if (isInUse(region)) {
        isHeldBack = true;
      } else {
        replace(region, fresh);
      }
    }
    news.hidden = !isHeldBack;
  }

  async function load() {
    if (isLoading) {
      isDue = true;
      return;
    }
    isLoading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) {
        show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      }
    } catch {
      wasLost = true;
    }
    setTimeout(() => {
      isLoading = false;
      if (isDue) {
        isDue = false;
        load();
      }
    }, 250);
  }

  function open() {
    source = new EventSource(`/events?topic=${encodeURIComponent(topic)}`);
    source.addEventListener("changed", load);
    source.addEventListener("error", () => {
      wasLost = true;
    });
    source.addEventListener("open", () => {
      if (wasLost) {
        wasLost = false;
        load();
      }
      document.body.dataset.live = "yes";
    });
  }

  // A page that nobody sees needs no stream: browsers have few connections to give.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (source === null) {
      open();
      load();
    }
  });
  if (!document.hidden) {
    open();
  }
})();
