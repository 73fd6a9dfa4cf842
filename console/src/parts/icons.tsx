/** Icons: 16 px, drawn with a stroke of 1.5 in the text's colour. */

export function Icon({ name, small, spin }: { name: string; small?: boolean; spin?: boolean }) {
  const size = small ? " i-sm" : "";
  return (
    <svg className={`i${size}${spin ? " spin" : ""}`} aria-hidden="true">
      <use href={`#i-${name}`} />
    </svg>
  );
}

export function Logo() {
  const dots = [7, 12, 17].flatMap((y) => [7, 12, 17].map((x) => [x, y] as const)).filter(([x, y]) => x !== 12 || y !== 12);
  return (
    <svg className="logo" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6" fill="var(--fill)" />
      <g fill="var(--on-fill)">
        {dots.map(([x, y]) => (
          <circle key={`${x} ${y}`} cx={x} cy={y} r="1.5" opacity=".45" />
        ))}
        <circle cx="12" cy="12" r="3" />
      </g>
    </svg>
  );
}

/** The outline of a page's icon on a board: what an empty page shows. */
export function EmptyArt({ icon }: { icon: string }) {
  const dots = Array.from({ length: 72 }, (_, n) => [7 + (n % 12) * 14, 7 + Math.floor(n / 12) * 14] as const);
  return (
    <svg className="empty-art" viewBox="0 0 168 84" aria-hidden="true">
      <g fill="currentColor" opacity=".35">
        {dots.map(([x, y]) => (
          <circle key={`${x} ${y}`} cx={x} cy={y} r="1.2" />
        ))}
      </g>
      <g transform="translate(56 14) scale(3.5)" fill="var(--bg)" stroke="currentColor" strokeWidth=".45" strokeDasharray="1.1 .8" strokeLinecap="round" strokeLinejoin="round">
        <use href={`#i-${icon}`} width="16" height="16" />
      </g>
    </svg>
  );
}

/** All symbols, once in the page. */
export const Sprite = () => (
  <svg className="sprite" aria-hidden="true">
    <symbol id="i-alert" viewBox="0 0 16 16"><path d="M8 2.5 14.25 13.25H1.75ZM8 6.5v3M8 11.4v.05"/></symbol>
    <symbol id="i-allow" viewBox="0 0 16 16"><path d="M3.25 8.5 6.5 11.75 12.75 4.75"/></symbol>
    <symbol id="i-approvals" viewBox="0 0 16 16"><path d="M2.25 8.75 4 3h8l1.75 5.75V13H2.25ZM2.25 8.75H5.5c.3 1.2 1.2 1.75 2.5 1.75s2.2-.55 2.5-1.75h3.25"/></symbol>
    <symbol id="i-ask" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.75"/><path d="M6.2 6.4C6.3 5.4 7 4.9 8 4.9s1.8.6 1.8 1.5c0 1.3-1.8 1.3-1.8 2.7M8 11.2v.05"/></symbol>
    <symbol id="i-busy" viewBox="0 0 16 16"><path d="M8 2.25A5.75 5.75 0 1 1 2.25 8"/></symbol>
    <symbol id="i-call" viewBox="0 0 16 16"><path d="M5.75 2v3M10.25 2v3M3.75 5h8.5v2.5a4.25 4.25 0 0 1-8.5 0ZM8 11.75V14"/></symbol>
    <symbol id="i-chat" viewBox="0 0 16 16"><path d="M2.25 3.25h11.5v8H7.5L4.5 13.9v-2.65H2.25Z"/></symbol>
    <symbol id="i-chev" viewBox="0 0 16 16"><path d="M6 3.75 10.25 8 6 12.25"/></symbol>
    <symbol id="i-clip" viewBox="0 0 16 16"><path d="M12.75 7.5 7.9 12.3a3 3 0 0 1-4.2-4.25l5.2-5.15a2 2 0 0 1 2.85 2.85L6.6 10.8a1 1 0 0 1-1.4-1.4l4.5-4.5"/></symbol>
    <symbol id="i-close" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8"/></symbol>
    <symbol id="i-connect" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.75"/><path d="M2.25 8h11.5M8 2.25c2 1.6 2.7 3.5 2.7 5.75S10 12.15 8 13.75C6 12.15 5.3 10.25 5.3 8S6 3.85 8 2.25Z"/></symbol>
    <symbol id="i-control" viewBox="0 0 16 16"><path d="M2.5 5h5M11.5 5h2M2.5 11h2M8.5 11h5"/><circle cx="9.5" cy="5" r="1.9"/><circle cx="6.5" cy="11" r="1.9"/></symbol>
    <symbol id="i-copy" viewBox="0 0 16 16"><rect x="5.75" y="5.75" width="7.5" height="7.5" rx="1.5"/><path d="M10.25 5.5V4.25c0-.8-.7-1.5-1.5-1.5h-4.5c-.8 0-1.5.7-1.5 1.5v4.5c0 .8.7 1.5 1.5 1.5H5.5"/></symbol>
    <symbol id="i-delete" viewBox="0 0 16 16"><path d="M2.75 4.5h10.5M6.25 4.5V2.75h3.5V4.5M4.1 4.5l.65 8.75h6.5l.65-8.75"/></symbol>
    <symbol id="i-deny" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.75"/><path d="M4 12 12 4"/></symbol>
    <symbol id="i-doc" viewBox="0 0 16 16"><path d="M3.75 2h5.5l3 3v9h-8.5ZM9.25 2v3h3"/></symbol>
    <symbol id="i-dot" viewBox="0 0 16 16"><circle cx="8" cy="8" r="2.5" fill="currentColor" stroke="none"/></symbol>
    <symbol id="i-down" viewBox="0 0 16 16"><path d="M3.75 6 8 10.25 12.25 6"/></symbol>
    <symbol id="i-download" viewBox="0 0 16 16"><path d="M8 2.75v7.5M4.75 7.25 8 10.25l3.25-3M2.75 13.25h10.5"/></symbol>
    <symbol id="i-error" viewBox="0 0 16 16"><path d="M4 4l8 8M12 4l-8 8"/></symbol>
    <symbol id="i-exec" viewBox="0 0 16 16"><path d="M3 4.25 6.75 8 3 11.75M8.5 11.75H13"/></symbol>
    <symbol id="i-files" viewBox="0 0 16 16"><path d="M2 4.25c0-.7.5-1.25 1.25-1.25h2.9l1.6 1.75h5c.7 0 1.25.5 1.25 1.25v5.75c0 .7-.5 1.25-1.25 1.25h-9.5C2.5 13 2 12.45 2 11.75Z"/></symbol>
    <symbol id="i-grip" viewBox="0 0 16 16"><path d="M6 4v.05M10 4v.05M6 8v.05M10 8v.05M6 12v.05M10 12v.05" stroke-width="2"/></symbol>
    <symbol id="i-lock" viewBox="0 0 16 16"><rect x="3.25" y="7" width="9.5" height="6.5" rx="1.5"/><path d="M5.25 7V5a2.75 2.75 0 0 1 5.5 0v2"/></symbol>
    <symbol id="i-menu" viewBox="0 0 16 16"><path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/></symbol>
    <symbol id="i-more" viewBox="0 0 16 16"><path d="M3.5 8v.05M8 8v.05M12.5 8v.05" stroke-width="2"/></symbol>
    <symbol id="i-next" viewBox="0 0 16 16"><path d="M3.5 3.5v9L10 8ZM12.5 3.5v9"/></symbol>
    <symbol id="i-offline" viewBox="0 0 16 16"><path d="M2 2l12 12M1.75 6.25A9.5 9.5 0 0 1 4.5 4.4M7 3.55a9.5 9.5 0 0 1 7.25 2.7M4 8.75a6 6 0 0 1 2.6-1.5M10.3 7.6c.6.3 1.2.7 1.7 1.15M6.4 11.1a2.6 2.6 0 0 1 3.2 0"/></symbol>
    <symbol id="i-overview" viewBox="0 0 16 16"><path d="M2.5 13.25h11M4 11V8M8 11V3.5M12 11V6"/></symbol>
    <symbol id="i-play" viewBox="0 0 16 16"><path d="M4.75 2.75v10.5L13 8Z"/></symbol>
    <symbol id="i-plus" viewBox="0 0 16 16"><path d="M8 3v10M3 8h10"/></symbol>
    <symbol id="i-policy" viewBox="0 0 16 16"><path d="M8 1.9 13.25 3.6V8c0 3-2.1 5-5.25 6.1C4.85 13 2.75 11 2.75 8V3.6Z"/></symbol>
    <symbol id="i-prev" viewBox="0 0 16 16"><path d="M12.5 3.5v9L6 8ZM3.5 3.5v9"/></symbol>
    <symbol id="i-read" viewBox="0 0 16 16"><path d="M1.5 8S4 3.75 8 3.75 14.5 8 14.5 8 12 12.25 8 12.25 1.5 8 1.5 8Z"/><circle cx="8" cy="8" r="1.9"/></symbol>
    <symbol id="i-redo" viewBox="0 0 16 16"><path d="M10.75 3l2.75 2.75L10.75 8.5M13.25 5.75h-6.5a3.9 3.9 0 0 0 0 7.75H10"/></symbol>
    <symbol id="i-ring" viewBox="0 0 16 16"><circle cx="8" cy="8" r="3"/></symbol>
    <symbol id="i-runs" viewBox="0 0 16 16"><path d="M5.5 3.5h8M5.5 8h8M5.5 12.5h8"/><circle cx="2.6" cy="3.5" r=".6"/><circle cx="2.6" cy="8" r=".6"/><circle cx="2.6" cy="12.5" r=".6"/></symbol>
    <symbol id="i-schedule" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.75"/><path d="M8 4.75V8l2.25 1.75"/></symbol>
    <symbol id="i-search" viewBox="0 0 16 16"><circle cx="7" cy="7" r="4.25"/><path d="M10.25 10.25 13.5 13.5"/></symbol>
    <symbol id="i-send" viewBox="0 0 16 16"><path d="M13.75 2.25 2.25 6.5l4.9 2.35 2.35 4.9ZM13.75 2.25 7.15 8.85"/></symbol>
    <symbol id="i-servers" viewBox="0 0 16 16"><rect x="2.25" y="2.75" width="11.5" height="4.25" rx="1"/><rect x="2.25" y="9" width="11.5" height="4.25" rx="1"/><path d="M4.75 4.9v.05M4.75 11.1v.05"/></symbol>
    <symbol id="i-settings" viewBox="0 0 16 16"><circle cx="8" cy="8" r="2.1"/><path d="M8 1.75v2M8 12.25v2M1.75 8h2M12.25 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4"/></symbol>
    <symbol id="i-spawn" viewBox="0 0 16 16"><circle cx="4" cy="3.75" r="1.6"/><circle cx="12" cy="12.25" r="1.6"/><path d="M4 5.5v4.25c0 1.4 1.1 2.5 2.5 2.5h3.75"/></symbol>
    <symbol id="i-spend" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.75"/><path d="M9.9 6.1C9.5 5.5 8.9 5.2 8 5.2c-1.1 0-1.9.5-1.9 1.35 0 1.95 3.9.95 3.9 2.9 0 .85-.8 1.35-2 1.35-.9 0-1.6-.3-2-.9M8 4.1v7.8"/></symbol>
    <symbol id="i-stop" viewBox="0 0 16 16"><rect x="4" y="4" width="8" height="8" rx="1"/></symbol>
    <symbol id="i-sun" viewBox="0 0 16 16"><circle cx="8" cy="8" r="2.75"/><path d="M8 1.75v1M8 13.25v1M1.75 8h1M13.25 8h1M3.6 3.6l.7.7M11.7 11.7l.7.7M12.4 3.6l-.7.7M4.3 11.7l-.7.7"/></symbol>
    <symbol id="i-undo" viewBox="0 0 16 16"><path d="M5.25 3 2.5 5.75 5.25 8.5M2.75 5.75h6.5a3.9 3.9 0 0 1 0 7.75H6"/></symbol>
    <symbol id="i-up" viewBox="0 0 16 16"><path d="M8 13V3.25M3.75 7.5 8 3.25l4.25 4.25"/></symbol>
    <symbol id="i-write" viewBox="0 0 16 16"><path d="M10.4 3.1 12.9 5.6 5.9 12.6 2.9 13.1 3.4 10.1Z"/><path d="M8.9 4.6 11.4 7.1"/></symbol>
  </svg>
);
