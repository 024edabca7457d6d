// How the dashboard looks.

export const DASHBOARD_STYLE = `
.gb-dash { --gb-faint: #e9ecef; --gb-muted: #6a737d; --gb-bad: #c8372d; --gb-warn: #b67700; --gb-hover: #f3f5f7;
  --gb-link: #2f6fb0; }
.gb-dark .gb-dash { --gb-faint: #3a4048; --gb-muted: #9aa3ad; --gb-bad: #ff8a80; --gb-warn: #e0a33a;
  --gb-hover: #2c3138; --gb-link: #7db4ec; }
.gb-dash .gb-head { display: flex; align-items: center; gap: 10px; flex-wrap: wrap; margin: 2px 0 4px; }
.gb-dash .gb-name { font-size: 16px; font-weight: 600; }
.gb-dash .gb-pill { color: #fff; border-radius: 10px; padding: 1px 10px; font-weight: 600; font-size: 12px; }
.gb-dash .gb-pill.gb-busy { animation: gb-pulse 1.4s ease-in-out infinite; }
@keyframes gb-pulse { 50% { opacity: .55; } }
.gb-dash button { font: inherit; font-size: 12px; cursor: pointer; border-radius: 4px; padding: 2px 12px;
  border: 1px solid var(--gb-muted); background: transparent; color: inherit; }
.gb-dash button:hover:enabled { background: var(--gb-hover); }
.gb-dash button:disabled { opacity: .55; cursor: default; }
.gb-dash .gb-stop { border-color: var(--gb-bad); color: var(--gb-bad); font-weight: 600; margin-left: auto; }
.gb-dash .gb-aside { margin-left: auto; }
.gb-dash .gb-aside + .gb-stop { margin-left: 0; }
.gb-dash .gb-progress { margin-bottom: 6px; }
.gb-dash .gb-message { color: var(--gb-bad); white-space: pre-wrap; margin-bottom: 6px; }
.gb-dash .gb-chain { display: grid; grid-template-columns: max-content 1fr minmax(60px, 200px); align-items: center; gap: 8px;
  font-size: 12px; line-height: 15px; }
.gb-dash .gb-track { height: 8px; border-radius: 4px; background: var(--gb-faint); position: relative; }
.gb-dash .gb-mark { position: absolute; top: -1px; height: 10px; width: 1px; background: currentColor; opacity: .6; }
.gb-dash .gb-stage { color: var(--gb-warn); margin: 6px 0 2px; }
.gb-dash .gb-advice summary { cursor: pointer; color: var(--gb-link); width: fit-content; }
.gb-dash .gb-advice p, .gb-dash .gb-advice ul { margin: 4px 0; max-width: 80ch; }
.gb-dash .gb-advice code { font-size: 12px; }
.gb-dash .gb-measure { margin-top: 4px; }
.gb-dash .gb-fill { height: 100%; border-radius: 4px; transition: width .4s linear; }
.gb-dash .gb-warning { border-left: 3px solid var(--gb-warn); padding: 1px 8px; margin: 5px 0; }
.gb-dash .gb-hint { color: var(--gb-muted); }
.gb-dash .gb-tools { display: flex; align-items: center; gap: 8px; margin: 8px 0 2px; flex-wrap: wrap; }
.gb-dash input { font: inherit; font-size: 12px; padding: 1px 6px; width: 15em; color: inherit;
  background: transparent; border: 1px solid var(--gb-muted); border-radius: 4px; }
.gb-dash .gb-note { color: var(--gb-muted); font-size: 12px; }
.gb-dash .gb-scroll { max-height: 232px; overflow-y: auto; }
.gb-dash table { border-collapse: collapse; font-size: 12px; width: 100%; max-width: 760px;
  font-variant-numeric: tabular-nums; margin: 0; }
.gb-dash th, .gb-dash td { text-align: right; padding: 2px 8px; border: none; background: transparent; }
.gb-dash th { position: sticky; top: 0; font-weight: 600; border-bottom: 1px solid var(--gb-muted);
  background: var(--jp-layout-color0, Canvas); }
.gb-dash th:first-child, .gb-dash td:first-child { text-align: left; }
.gb-dash tbody tr:hover { background: var(--gb-hover); }
.gb-dash .gb-choice { display: inline-flex; align-items: center; gap: 5px; cursor: pointer; }
.gb-dash .gb-choice input { width: auto; margin: 0; accent-color: var(--gb-muted); }
.gb-dash .gb-swatch { width: 12px; height: 4px; border-radius: 2px; }
.gb-dash .gb-stroke:not(:empty) { font-weight: 700; }
.gb-dash .gb-chip { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 7px;
  border: 1px solid var(--gb-muted); vertical-align: -1px; }
.gb-dash .gb-bad { color: var(--gb-bad); font-weight: 600; }
.gb-dash .gb-bar { display: flex; height: 12px; border-radius: 3px; overflow: hidden; margin: 4px 0;
  background: var(--gb-faint); }
.gb-dash .gb-block { font-size: 12px; }
.gb-dash .gb-title { font-weight: 600; font-size: 12px; margin-top: 10px; }
.gb-view .gb-canvas { transition: opacity .3s; }
.gb-view .gb-canvas.gb-waiting { opacity: .35; }
`;
