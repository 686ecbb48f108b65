(() => {
  const wrong = [];
  const visible = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const describe = (e) => `<${e.localName}${e.id ? " id=" + e.id : ""}>`;

  // Names: what a screen reader says.
  if (!document.documentElement.lang) wrong.push("the page has no language");
  for (const e of document.querySelectorAll("input")) if (!e.labels.length) wrong.push(describe(e) + " has no label");
  for (const e of document.querySelectorAll("button, a")) if (!e.textContent.trim()) wrong.push(describe(e) + " has no name");
  for (const e of document.querySelectorAll("[role=img]")) if (!e.getAttribute("aria-label")) wrong.push(describe(e) + " has no description");
  for (const e of document.querySelectorAll("section, [role=region]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) wrong.push(describe(e) + " has no name");
  for (const e of document.querySelectorAll("th")) if (!e.scope) wrong.push(describe(e) + " has no scope");
  if (document.querySelectorAll("h1").length !== 1 || document.querySelectorAll("main").length !== 1) wrong.push("the page needs one h1 and one main");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");

  // Room: nothing makes the page scroll sideways, and a finger finds each button.
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${innerWidth}`);
  for (const e of document.querySelectorAll("button")) if (visible(e) && e.getBoundingClientRect().height < 24) wrong.push(describe(e) + " is too small");

  // Contrast: WCAG 2.2, 1.4.3. Disabled controls are exempt.
  const channels = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
  const light = (c) => {
    const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !visible(e) || e.closest("title, noscript, button:disabled, .skip")) continue;
    let opacity = 1, ground = null;
    for (let up = e; up; up = up.parentElement) {
      opacity *= Number(getComputedStyle(up).opacity);
      ground ??= up instanceof SVGElement ? null : channels(getComputedStyle(up).backgroundColor);
    }
    ground ??= [255, 255, 255];
    const svg = e instanceof SVGElement;
    const ink = channels(getComputedStyle(e)[svg ? "fill" : "color"]).map((v, i) => v * opacity + ground[i] * (1 - opacity));
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const needed = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700 ? 3 : 4.5;
    const message = `${describe(e)} ${e.className.baseVal ?? e.className}: contrast ${ratio.toFixed(2)}, needs ${needed}`;
    if (ratio < needed && !seen.has(message)) { seen.add(message); wrong.push(message); }
  }
  return wrong;
})()
