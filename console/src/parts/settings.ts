/** Changing the user's settings file, on top of what was read. */

import { ApiError, change, refresh, useResource } from "../api";
import { t } from "../i18n";
import type { Config } from "../types";
import { toast, toastError } from "./overlay";

export const useConfig = () => useResource<Config>("/api/config");

export interface ModelRow {
  name: string;
  status: string;
}

/** Which models there are, which is used where none is named, and which keys are set; never the keys. */
export interface Models {
  models: ModelRow[];
  default: string;
  keys: { provider: string; source: string; set: boolean }[];
}

export const ready = (model: ModelRow) => /^ready|answer|running/i.test(model.status);

/** Whether it was kept. */
export async function setConfig(config: Config, values: Record<string, unknown>): Promise<boolean> {
  try {
    const done = await change<{ applies: string; after_restart?: string[]; error?: string }>("PATCH", "/api/config", { base: config.hash, set: values });
    if (done.error) toast(done.error, "deny");
    else if (done.applies === "now" && !done.after_restart?.length) toast(t("Saved. It holds from the next run on."));
    else toast(t("Saved. It holds after pegboard serve was started again."));
    await refresh("/api/config", "/api/policy", "/api/models");
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 409) {
      toast(t("The settings were changed elsewhere. They are shown as they are now."), "deny");
      await refresh("/api/config");
    } else toastError(error);
    return false;
  }
}
