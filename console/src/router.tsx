/** Routes: the address holds what is selected and filtered, so that a link shows the same and Back works. */

import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";

const watchers = new Set<() => void>();
addEventListener("popstate", () => watchers.forEach((watch) => watch()));

export function go(path: string, replace = false) {
  if (path === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", path);
  for (const watch of watchers) watch();
}

export interface Route {
  /** The parts of the path, decoded: `/chat/a%2Fb` is `["chat", "a/b"]`. */
  parts: string[];
  query: URLSearchParams;
}

export function useRoute(): Route {
  const url = useSyncExternalStore(
    (watch) => (watchers.add(watch), () => watchers.delete(watch)),
    () => location.pathname + location.search,
  );
  const [path = "", query] = url.split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const to = (...parts: string[]) => `/${parts.map(encodeURIComponent).join("/")}`;

/** Sets one parameter of the query; empty takes it away. */
export function setQuery(name: string, value: string, replace = true) {
  const query = new URLSearchParams(location.search);
  if (value) query.set(name, value);
  else query.delete(name);
  go(query.size ? `${location.pathname}?${query}` : location.pathname, replace);
}

export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={click} {...rest} />;
}
