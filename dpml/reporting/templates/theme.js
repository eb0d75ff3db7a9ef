"use strict";
// Before anything is drawn: the colours that were chosen last. Without a choice, or without scripts, the system's.
const theme = {
  get chosen() { try { return localStorage.getItem("dpml-theme"); } catch { return null; } },
  set chosen(name) { try { localStorage.setItem("dpml-theme", name); } catch { /* the choice is for this page only */ } },
  get dark() { return matchMedia(document.getElementById("dark").media).matches; },
  show(name) { document.getElementById("dark").media = name === "dark" ? "screen" : "not all"; },
};
if (theme.chosen) theme.show(theme.chosen);
