// Keys for people with many tasks. Without this file everything works; the keys can be switched off for a browser.
"use strict";

(() => {
  const help = document.getElementById("keys");
  const box = document.getElementById("keys-on");
  if (!help || !box) {
    return;
  }
  const KEEP = "verbworker-task-keys";

  function stored(value) {
    try {
      if (value !== undefined) {
        localStorage.setItem(KEEP, value);
      }
      return localStorage.getItem(KEEP);
    } catch {
      return null;
    }
  }

  help.hidden = false;
  box.checked = stored() !== "off";
  box.addEventListener("change", () => stored(box.checked ? "on" : "off"));

  // The row that the focus is in; the page of one task has no rows.
  function here() {
    return document.activeElement?.closest?.("tr.task") ?? null;
  }

  function move(step) {
    const rows = [...document.querySelectorAll("tr.task")];
    const at = rows.indexOf(here());
    const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
    rows[next]?.querySelector("a")?.focus();
  }

  function claim() {
    const row = here();
    const where = row ?? (document.querySelector("tr.task") ? null : document);
    where?.querySelector('button[data-key="c"]')?.click();
  }

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    const isTyping = at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
    if (isTyping || event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) {
      return;
    }
    if (event.key === "?") {
      help.open = !help.open;
      help.querySelector("summary").focus();
    } else if (!box.checked) {
      return;
    } else if (event.key === "j" || event.key === "k") {
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "c") {
      claim();
    } else {
      return;
    }
    event.preventDefault();
  });
})();
