"""How the page looks: by light and in the dark, on a wide screen, a narrow one and on paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--soft:#f4f6f8;--ink:#1d2329;--faint:#5d6772;
--line:#dfe3e8;--good:#1a7f4b;--bad:#d3222a;--open:#9a6700;--noted:#8250c4}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--soft:#1d232a;--ink:#e6e9ec;
--faint:#98a2ad;--line:#2b323a;--good:#4cc38a;--bad:#ff5c5c;--open:#e0a100;--noted:#b08cf0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1040px;padding:24px 20px 48px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 12px}h2{font-size:18px;margin:36px 0 8px}
h3{font-size:15px;margin:24px 0 6px}p{margin:6px 0;max-width:72ch}
.faint{color:var(--faint)}.small{font-size:13px}
.verdict{border-left:6px solid;padding:8px 14px;max-width:none;background:var(--soft);
border-radius:4px}
.verdict b{font-size:20px;margin-right:8px}
.valid{border-color:var(--good)}.valid b{color:var(--good)}
.invalid{border-color:var(--bad)}.invalid b{color:var(--bad)}
.unknown{border-color:var(--open)}.unknown b{color:var(--open)}
.wrong{color:var(--bad)}.noted{color:var(--noted)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px;margin:12px 0}
dl div{background:var(--soft);border-radius:4px;padding:7px 11px;min-width:0}
dl .broad{grid-column:1/-1}
dt{color:var(--faint);font-size:12px}dd{margin:0;font-weight:600;overflow-wrap:anywhere}
.setting dd{font-weight:400}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:4px;margin:8px 0}
.scroll svg{display:block;min-width:640px;width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.long{white-space:normal}tr:last-child td{border-bottom:0}
th{color:var(--faint);font-weight:600}td.figure,th.figure{text-align:right}
tr.shows td{font-weight:600}tr.shows td:first-child{box-shadow:inset 3px 0 var(--bad)}
tr.shows.documented td:first-child{box-shadow:inset 3px 0 var(--noted)}
tr.beside td{color:var(--faint)}
code,pre{font:13px ui-monospace,monospace;background:var(--soft);border-radius:4px}
pre{padding:10px 12px;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--faint)}
.key{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px;color:var(--faint);margin:6px 0}
.key i{display:inline-block;width:22px;height:11px;margin-right:6px;border-radius:2px}
@media print{.scroll{overflow:visible}.scroll svg{min-width:0}details{display:block}}
"""
