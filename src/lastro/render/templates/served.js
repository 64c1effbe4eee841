"use strict";
// Shows the page again when the server says that it has changed. The token of the first address leaves the history.
if (location.search) history.replaceState(null, "", location.pathname);

async function refresh() {
  const answer = await fetch(location.pathname, { credentials: "same-origin" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of ["header", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  document.title = page.title;
}

const events = new EventSource("events");
events.onmessage = refresh;
events.onopen = () => { document.body.style.opacity = ""; };
events.onerror = () => { document.body.style.opacity = 0.5; };  // the server has ended, or cannot be reached
