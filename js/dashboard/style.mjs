// How the dashboard looks.

export const DASHBOARD_STYLE = `
.gb-dash { --gb-faint: #e9ecef; --gb-muted: #6a737d; --gb-bad: #c8372d; --gb-warn: #b67700; --gb-hover: #f3f5f7;
  --gb-link: #2f6fb0; }
.gb-dark .gb-dash { --gb-faint: #3a4048; --gb-muted: #9aa3ad; --gb-bad: #ff8a80; --gb-warn: #e0a33a;
  --gb-hover: #2c3138; --gb-link: #7db4ec; }
.gb-dash .gb-head { display: flex; align-items: center; gap: 10px; flex-wrap: wrap; margin: 2px 0 4px; }
.gb-dash .gb-name { font-size: 16px; font-weight: 600; }
.gb-dash :is(.gb-pill, .gb-state) { color: #fff; border-radius: 10px; padding: 1px 10px; font-weight: 600; font-size: 12px; }
.gb-dash .gb-pill.gb-busy { animation: gb-pulse 1.4s ease-in-out infinite; }
@keyframes gb-pulse { 50% { opacity: .55; } }
.gb-dash button { font: inherit; font-size: 12px; cursor: pointer; border-radius: 4px; padding: 2px 12px;
  border: 1px solid var(--gb-muted); background: transparent; color: inherit; }
.gb-dash button:hover:enabled { background: var(--gb-hover); }
.gb-dash button:disabled { opacity: .55; cursor: default; }
.gb-dash :is(.gb-stop, .gb-halt) { border-color: var(--gb-bad); color: var(--gb-bad); font-weight: 600; margin-left: auto; }
.gb-dash .gb-aside { margin-left: auto; }
.gb-dash .gb-aside + .gb-stop { margin-left: 0; }
.gb-dash .gb-progress { margin-bottom: 6px; }
.gb-dash .gb-message { color: var(--gb-bad); white-space: pre-wrap; margin-bottom: 6px; }
.gb-dash .gb-chain { display: grid; grid-template-columns: max-content 1fr minmax(60px, 200px); align-items: center; gap: 8px;
  font-size: 12px; line-height: 15px; }
.gb-dash .gb-track { height: 8px; border-radius: 4px; background: var(--gb-faint); position: relative; }
.gb-dash .gb-mark { position: absolute; top: -1px; height: 10px; width: 1px; background: currentColor; opacity: .6; }
.gb-dash .gb-stage { color: var(--gb-warn); margin: 6px 0 2px; }
.gb-dash .gb-advice { display: inline; }
.gb-dash .gb-advice summary { cursor: pointer; color: var(--gb-link); display: inline; margin-left: 10px; white-space: nowrap; }
.gb-dash .gb-advice summary::before { content: "▸ "; }
.gb-dash .gb-advice[open] summary::before { content: "▾ "; }
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
.gb-dash .gb-scroll { max-height: 232px; overflow: auto; }
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
.gb-dash .gb-centring { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: center; font-size: 12px; margin: 2px 0 2px 19px; }
.gb-dash .gb-centring svg { display: block; }
.gb-dash .gb-title { font-weight: 600; font-size: 12px; margin-top: 10px; }
.gb-top { position: sticky; top: 0; z-index: 3; background: var(--jp-layout-color0, Canvas); }
.gb-mini { font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); color: #2b3036; position: fixed; z-index: 20; display: flex; align-items: center; gap: 8px; padding: 5px 10px;
  border: 1px solid var(--gb-muted); border-radius: 8px; background: var(--jp-layout-color0, Canvas);
  box-shadow: 0 2px 8px rgba(0, 0, 0, .25); }
.gb-dark .gb-mini { color: #d8dce2; }
.gb-mini[hidden], .gb-panel[hidden], .gb-canvas[hidden] { display: none; }
.gb-mini .gb-name { font-size: 13px; }
.gb-views { min-height: 150px; }
.gb-dash .gb-tabs { display: flex; align-items: center; gap: 6px; flex-wrap: wrap; margin: 8px 0 6px;
  border-bottom: 1px solid var(--gb-faint); padding-bottom: 4px; }
.gb-dash .gb-tab { border: none; border-radius: 4px 4px 0 0; font-size: 13px; padding: 3px 10px; opacity: .75; }
.gb-dash .gb-tab[aria-selected="true"] { opacity: 1; font-weight: 600; box-shadow: inset 0 -2px 0 currentColor; }
.gb-dash .gb-small { padding: 1px 7px; font-size: 11px; }
.gb-dash :is(button, input, summary):focus-visible { outline: 2px solid var(--gb-link); outline-offset: 1px; }
.gb-dash .gb-cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(270px, 100%), 1fr)); gap: 6px 12px;
  align-items: start; }
.gb-dash .gb-card { position: relative; max-width: 330px; }
.gb-dash .gb-wide { grid-column: 1 / -1; max-width: 560px; }
.gb-dash .gb-picture { display: block; width: 100%; padding: 0; border: none; }
.gb-dash .gb-picture svg { display: block; width: 100%; height: auto; }
.gb-dash .gb-picture:hover:enabled { box-shadow: 0 0 0 1px var(--gb-faint); background: transparent; }
.gb-dash .gb-picture[aria-pressed="true"] { box-shadow: 0 0 0 1px var(--gb-link); }
.gb-dash .gb-verdict { margin-bottom: 4px; }
.gb-dash .gb-verdict.gb-not { color: var(--gb-warn); font-weight: 600; }
.gb-dash .gb-row { position: absolute; left: 2px; right: 2px; height: 15px; padding: 0; border: none; border-radius: 3px;
  transform: translateY(-50%); }
.gb-dash .gb-row:hover:enabled { background: color-mix(in srgb, var(--gb-link) 15%, transparent); }
.gb-dash .gb-row[aria-pressed="true"] { box-shadow: inset 0 0 0 1px var(--gb-link); }
.gb-dash .gb-drop { position: absolute; top: 0; right: 0; padding: 0 6px; border: none; color: var(--gb-muted); }
.gb-dash .gb-expression { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 4px 0 8px; }
.gb-dash .gb-expression input { flex: 0 1 24em; width: auto; min-width: 12em; font-family: var(--jp-code-font-family, monospace); }
.gb-dash .gb-refused { flex-basis: 100%; margin: 0; color: var(--gb-bad); font-size: 12px; overflow-x: auto;
  font-family: var(--jp-code-font-family, monospace); }
.gb-dash .gb-refused:empty { display: none; }
.gb-view .gb-canvas { transition: opacity .3s; }
.gb-view .gb-canvas.gb-waiting { opacity: .35; }
`;
