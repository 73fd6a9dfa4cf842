"""Programs that act outside the workspace by trade: clusters and clouds, databases, keys, system packages, other agents."""

from __future__ import annotations

from typing import Final

from pegboard.shell.guard.calls import ProgramSpec, asks, names

OUTSIDE: Final[dict[str, ProgramSpec]] = {
    **dict.fromkeys(
        names(
            "kubectl helm oc kustomize-apply terraform tofu pulumi ansible ansible-playbook packer nomad "
            "consul vault aws gcloud gsutil bq az doctl heroku flyctl fly vercel netlify wrangler "
            "firebase eksctl kops linode-cli ibmcloud oci s3cmd s4cmd rclone restic borg mc b2 railway "
            "render supabase planetscale pscale stripe twilio serverless sls cdk sam eb copilot amplify "
            "cf argocd flux istioctl linkerd chef-client knife puppet salt salt-ssh gh glab hub tea "
            "hcloud scw rabbitmqctl fab cap dokku juju kind minikube k3d"
        ),
        asks("changes or reads things outside this machine"),
    ),
    **dict.fromkeys(
        names(
            "psql mysql mariadb mysqladmin mysqldump pg_dump pg_dumpall pg_restore dropdb createdb "
            "dropuser createuser mongo mongosh mongodump mongorestore redis-cli cqlsh influx "
            "clickhouse-client sqlcmd sqlplus neo4j-admin cypher-shell etcdctl snowsql bcp isql usql "
            "mycli pgcli litecli cockroach duckdb"
        ),
        asks("works on a database server"),
    ),
    **dict.fromkeys(
        names(
            "security keyctl secret-tool pass gopass op bw lpass keyring gnome-keyring gpg-connect-agent "
            "ssh-add ssh-keygen ssh-copy-id ssh-agent age sops gpg gpg2 certutil keytool pwsafe kinit "
            "klist chezmoi kwallet-query kwalletcli sshpass"
        ),
        asks("works on keys or passwords"),
    ),
    **dict.fromkeys(
        names(
            "apt apt-get aptitude dpkg yum dnf rpm zypper pacman apk emerge snap flatpak brew port "
            "nix-env nix nix-shell nix-build nixos-rebuild choco scoop winget pkg opkg easy_install cpan cpanm pecl pear"
        ),
        asks("installs or removes system packages"),
    ),
    **dict.fromkeys(
        names(
            "claude codex gemini aider llm goose opencode cursor-agent amp crush qwen kimi openhands mods sgpt "
            "interpreter gptme plandex cline droid auggie"
        ),
        asks("starts another agent, which is not held by what this one may do", decides=True),
    ),
    **dict.fromkeys(
        names(
            "ollama huggingface-cli hf dvc wandb nuget nimble ansible-galaxy eas fastlane altool kaggle modelscope "
            "gdown adb stunnel openai xcrun"
        ),
        asks("reaches other machines"),
    ),
    **dict.fromkeys(
        names(
            "networksetup scutil codesign diskutil pmset tmutil systemsetup reg regedit netsh bcdedit wmic sc "
            "vssadmin cipher takeown icacls"
        ),
        asks("changes the system"),
    ),
}
