// Pictures of models can be made larger and smaller, and moved by dragging; scrolling works without this file.
"use strict";

(() => {
  const LEAST = 0.1;
  const MOST = 4;
  const STEP = 1.25;
  const READABLE = 0.9;

  function clamp(scale) {
    return Math.min(MOST, Math.max(LEAST, scale));
  }

  function start(picture) {
    const view = picture.querySelector(".picture-view");
    const content = view.querySelector("#picture");
    const words = picture.querySelector("[data-picture-words]");
    const tools = picture.querySelector("[data-picture-tools]");
    let scale = 1;
    let spread = 0;
    let grip = null;
    let isFollowing = true;

    const drawing = () => content.querySelector("svg");
    const box = () => drawing().viewBox.baseVal;

    function apply() {
      const svg = drawing();
      if (svg) {
        svg.setAttribute("width", Math.round(box().width * scale));
        svg.setAttribute("height", Math.round(box().height * scale));
      }
    }

    // Changes the size and keeps what is at a point of the view where it is.
    function zoom(wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) {
      const before = scale;
      scale = clamp(wanted);
      const left = ((view.scrollLeft + x) * scale) / before - x;
      const top = ((view.scrollTop + y) * scale) / before - y;
      apply();
      view.scrollTo(left, top);
    }

    function fit() {
      return clamp(Math.min(view.clientWidth / box().width, view.clientHeight / box().height, 1));
    }

    const acts = {
      in: () => zoom(scale * STEP),
      out: () => zoom(scale / STEP),
      fit: () => zoom(Math.min(1, view.clientWidth / box().width)),
      one: () => zoom(1),
    };

    // Where the case is now comes into view; without such a place, the beginning.
    function show() {
      const here = content.querySelector(".is-incident, .is-waiting, .is-active");
      if (here) {
        const place = here.getBoundingClientRect();
        const frame = view.getBoundingClientRect();
        view.scrollLeft += place.left + place.width / 2 - frame.left - frame.width / 2;
        view.scrollTop += place.top + place.height / 2 - frame.top - frame.height / 2;
      }
    }

    function tell(event) {
      const element = event.target.closest?.("[data-element-id]");
      const title = element?.querySelector(":scope > title");
      words.textContent = title ? title.textContent : "";
    }

    function pair(touches) {
      const [one, other] = touches;
      const frame = view.getBoundingClientRect();
      return {
        x: (one.clientX + other.clientX) / 2 - frame.left,
        y: (one.clientY + other.clientY) / 2 - frame.top,
        apart: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
      };
    }

    tools.hidden = false;
    view.dataset.canMove = "";
    tools.addEventListener("click", (event) => acts[event.target.closest("button")?.dataset.zoom]?.());
    view.addEventListener("keydown", (event) => {
      const name = { "+": "in", "=": "in", "-": "out", 0: "one", f: "fit" }[event.key];
      if (name && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        acts[name]();
      }
    });
    view.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          const frame = view.getBoundingClientRect();
          zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
        }
      },
      { passive: false },
    );
    // One finger scrolls as everywhere; two would make the whole page larger.
    view.addEventListener(
      "touchmove",
      (event) => {
        if (event.touches.length === 2) {
          event.preventDefault();
          const now = pair(event.touches);
          if (spread) {
            zoom((scale * now.apart) / spread, now.x, now.y);
          }
          spread = now.apart;
        }
      },
      { passive: false },
    );
    for (const name of ["touchstart", "touchend", "touchcancel"]) {
      view.addEventListener(name, () => (spread = 0), { passive: true });
    }
    view.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) {
        grip = { x: event.clientX, y: event.clientY };
      }
    });
    window.addEventListener("pointermove", (event) => {
      if (grip && event.pointerType === "mouse") {
        view.classList.add("is-moving");
        view.scrollLeft -= event.clientX - grip.x;
        view.scrollTop -= event.clientY - grip.y;
        grip = { x: event.clientX, y: event.clientY };
      }
    });
    for (const name of ["pointerup", "pointercancel", "blur"]) {
      window.addEventListener(name, () => {
        grip = null;
        view.classList.remove("is-moving");
      });
    }
    content.addEventListener("pointerover", tell);
    content.addEventListener("focusin", tell);
    // A live update brings the picture at its original size. It follows the case until somebody has moved it.
    new MutationObserver(() => {
      apply();
      if (isFollowing) {
        show();
      }
    }).observe(content, { childList: true });
    for (const name of ["wheel", "pointerdown", "keydown"]) {
      picture.addEventListener(name, () => (isFollowing = false), { passive: true });
    }

    // Small pictures are shown whole; of large ones a part that can be read.
    scale = Math.max(fit(), READABLE);
    apply();
    show();
  }

  document.querySelectorAll("[data-picture]").forEach(start);
})();
