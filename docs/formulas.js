// Settings of MathJax, which scripts/docs_math.py adds to the site. Only formulas of the pages are read.
window.MathJax = {
  chtml: { scale: 0.9 },
  options: { enableMenu: false, ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
};
