// Before the first paint: the theme and language that were chosen in this browser.
{
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem("pegboard.theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    root.lang = localStorage.getItem("pegboard.language") || (navigator.language.startsWith("zh") ? "zh" : "en");
  } catch {
    // Storage is off in this browser: the system's theme holds.
  }
}
