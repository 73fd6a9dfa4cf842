"""The words that the router knows: actions in English and Chinese, programs, file endings."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ACTIONS: Final[dict[str, str]] = {
    "read": (
        "read open view show display print cat less more head tail see summarise summarize summary explain "
        "describe review inspect examine preview dump recite contents content say says look skim peek type "
        "reading opening 读取 阅读 读一下 读出 读 打开 查看 看看 看一下 显示 展示 内容 总结 概括 说了什么 写了什么"
    ),
    "list": (
        "list ls dir enumerate tree browse listing files folders folder directory directories subfolders "
        "subdirectories entries 列出 列一下 罗列 目录 文件夹 有哪些文件 有什么文件"
    ),
    "search": (
        "search find grep rg ripgrep locate look hunt scan seek where which occurrences occurrence usages "
        "mention mentions references spot searching 搜索 搜一下 搜 查找 寻找 检索 查一下 找一下 找出 找到 找 哪里 哪儿 哪些"
    ),
    "write": (
        "write create save make put store add generate record note jot touch new draft insert append compose "
        "produce 写入 写到 写进 写 创建 新建 建立 保存 存到 存入 存进 生成 添加 放到 放进"
    ),
    "edit": (
        "replace change edit modify rename substitute swap update fix correct alter turn 替换 修改 改成 改为 换成 编辑 更改"
    ),
    "run": (
        "run execute exec start launch invoke install build compile perform trigger use command shell terminal "
        "bash script running 运行 执行 跑一下 跑 启动 命令 终端 安装"
    ),
    "fetch": (
        "fetch download get retrieve grab visit crawl scrape pull curl wget access navigate page website "
        "webpage site web url link http https article online 抓取 下载 获取 网页 访问 网址 网站 链接 打开网页"
    ),
    "glob": "glob extension wildcard named 通配",
    "delete": "delete remove erase unlink rm discard 删除 移除 删掉",
    "send": "send message notify email post reply tell forward 发送 发给 通知 消息",
    "ask": "ask question clarify 询问 提问",
    "schedule": "schedule remind reminder cron timer every daily 提醒 定时 计划",
}
"""Actions and the words that point to them. A word may point to several."""

VERBS: Final[dict[str, str]] = {
    "read": (
        "read open view show display print cat less head tail see summarise summarize explain describe review "
        "inspect examine preview dump load skim peek give tell check"
    ),
    "list": "list ls dir enumerate tree browse",
    "search": "search find grep rg ripgrep locate look hunt scan seek spot",
    "write": (
        "write create save make put store add generate record note jot touch draft insert append compose produce"
    ),
    "edit": "replace change edit modify rename substitute swap update fix correct alter turn",
    "run": "run execute exec start launch invoke install build compile perform trigger use",
    "fetch": "fetch download get retrieve grab visit crawl scrape pull curl wget access navigate open",
    "delete": "delete remove erase unlink",
    "send": "send message notify email post",
    "ask": "ask",
    "schedule": "schedule remind",
}
"""Imperatives: the first one of a request weighs most."""

NOUNS: Final = _words(
    "file files folder folders directory directories contents content command page website string word text "
    "line lines function class variable pattern called named containing inside please"
)
"""Further words whose misspelling is mended."""

PROGRAMS: Final = _words(
    "git npm npx yarn pnpm node deno bun pip pip3 pipx uv uvx poetry python python3 pytest tox nox ruff mypy "
    "pyright black flake8 pylint make cmake ninja gcc g++ clang cargo rustc rustup go gofmt java javac mvn "
    "gradle dotnet ruby gem bundle rake rails php composer perl lua bash sh zsh docker podman kubectl helm "
    "terraform ansible vagrant ls cat head tail wc sort uniq grep rg sed awk find xargs du df free top ps kill "
    "uname whoami hostname date uptime env printenv echo printf pwd mkdir rmdir touch cp mv rm ln chmod chown "
    "tar zip unzip gzip gunzip curl wget ssh scp rsync ping dig nslookup ip ifconfig netstat ss systemctl "
    "journalctl apt apt-get brew dnf yum sqlite3 psql mysql redis-cli jq yq diff patch tree file stat which "
    "id lscpu lsblk nproc sleep seq tee cut tr base64 sha256sum md5sum openssl ffmpeg convert pandoc tsc "
    "eslint prettier vite webpack jest vitest mocha isort bandit coverage pre-commit mkdocs sphinx-build "
    "django-admin flask uvicorn gunicorn alembic dbt airflow swift xcodebuild flutter dart mix elixir ghc "
    "stack cabal zig nim julia Rscript time timeout nohup watch cal bc expr test true false lsof crontab"
)
"""Programs whose name begins a command."""

PROSE_PROGRAMS: Final = _words(
    "make find file test time which cut sort watch go stack mix head tail date free top cat tree patch convert "
    "kill stat touch black true false id swift bundle perl ruby composer split sleep"
)
"""Programs whose name is an English word too: a request that begins with one is no command by itself."""

EXTENSIONS: Final = _words(
    "txt md markdown rst adoc org tex log csv tsv json jsonl ndjson json5 yaml yml toml ini cfg conf config env "
    "properties xml html htm xhtml css scss sass less js mjs cjs jsx ts tsx vue svelte py pyi pyx ipynb rb rs go "
    "java kt kts scala c h cc cpp cxx hpp hh cs fs vb swift m mm php pl pm lua r jl hs ml clj ex exs erl dart zig "
    "nim sh bash zsh fish ps1 bat cmd sql db sqlite lock sum mod gradle cmake mk tf tfvars proto graphql gql "
    "pdf doc docx xls xlsx ppt pptx odt ods rtf epub png jpg jpeg gif svg webp bmp ico mp3 wav flac ogg mp4 mov "
    "avi mkv webm zip tar gz tgz bz2 xz 7z rar jar whl deb rpm diff patch out err bak tmp dat bin pem crt key pub "
    "service timer rules list po pot srt vtt ics eml plist template tpl j2 jinja ejs hbs sample example dist "
    "map wasm so o a dll exe class parquet feather pkl npy gguf nix dockerfile editorconfig"
)
"""File endings; a word with one is a path."""

KNOWN_FILES: Final = _words(
    "Dockerfile Containerfile Makefile GNUmakefile Vagrantfile Jenkinsfile Gemfile Rakefile Procfile Pipfile "
    "Brewfile Justfile README Readme LICENSE LICENCE CHANGELOG CHANGES COPYING AUTHORS CONTRIBUTING NOTICE "
    "CODEOWNERS MANIFEST"
)
"""File names without an ending."""

NO_FILES: Final = _words("node.js next.js vue.js react.js d3.js three.js express.js nuxt.js a.m p.m e.g i.e")
"""Words with a dot that are no files."""

HERE: Final = _words(
    "here project repo repository codebase code base workspace everywhere anywhere cwd current tree "
    "source sources app application whole entire all every files file place there this it them "
    "directory folder dir root contents listing"
)
"""Scope words that mean the whole workspace."""

NO_NAMES: Final = _words(
    "the a an my our your this that these those it its them they there here everything anything something all "
    "any every each some me us you i we and or of to in on at for with from by is are was were be do does did has "
    "have had what which who where when why how please thanks now then case total general detail order full "
    "short mind english french german spanish chinese japanese bullet plain one two three more less first last "
    "new old other same such not no yes"
)
"""Words that are never the name of a file or folder."""
