/** The model's text: paragraphs, lists, headings and code of Markdown; never HTML, and links only to the web. */

import { Fragment, type ReactNode, memo } from "react";

const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

function inline(text: string): ReactNode[] {
  const out: ReactNode[] = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    out.push(text.slice(from, found.index));
    const key = found.index;
    if (found[1]) out.push(<code key={key}>{found[1].slice(1, -1)}</code>);
    else if (found[2]) out.push(<b key={key} className="strong">{found[2].slice(2, -2)}</b>);
    else out.push(<a key={key} href={found[4]} rel="noreferrer noopener" target="_blank">{found[3]}</a>);
    from = found.index + found[0].length;
  }
  out.push(text.slice(from));
  return out;
}

const lines = (text: string) => text.split("\n").map((line, n) => <Fragment key={n}>{n > 0 && <br />}{inline(line)}</Fragment>);

function block(source: string, key: number): ReactNode {
  const items = source.split("\n");
  if (items.every((line) => /^\s*[-*] /.test(line))) return <ul key={key}>{items.map((line, n) => <li key={n}>{inline(line.replace(/^\s*[-*] /, ""))}</li>)}</ul>;
  if (items.every((line) => /^\s*\d+[.)] /.test(line))) return <ol key={key}>{items.map((line, n) => <li key={n}>{inline(line.replace(/^\s*\d+[.)] /, ""))}</li>)}</ol>;
  const heading = /^#{1,6} (.*)$/.exec(source);
  if (heading) return <p key={key} className="strong">{inline(heading[1]!)}</p>;
  return <p key={key}>{lines(source)}</p>;
}

export const Prose = memo(function Prose({ text, caret }: { text: string; caret?: boolean }) {
  const parts = text.split(/^```[^\n]*$/m);
  return (
    <div className="prose">
      {parts.map((part, n) =>
        n % 2 ? (
          <pre className="code" key={n} tabIndex={0}>{part.replace(/^\n|\n$/g, "")}</pre>
        ) : (
          part.trim().split(/\n{2,}/).filter(Boolean).map((one, k) => block(one, n * 1000 + k))
        ),
      )}
      {caret && <span className="caret" aria-hidden="true" />}
    </div>
  );
});
