"""What the guard knows of programs: rows of facts, no logic.

Sources: the manual pages of coreutils 9, findutils 4.9, GNU tar 1.34, git 2.43, rsync 3.2, less 590, vim 9,
man-db 2.11, ripgrep 14, OpenSSH 9 and curl 8; the kinds of row in the shell corpus.
"""

from __future__ import annotations

from typing import Final

from pegboard.shell.guard.calls import Operands, ProgramSpec, asks, names
from pegboard.shell.guard.external_programs import OUTSIDE


def _row(
    operands: Operands = "read",
    *,
    takes: str = "",
    long: str = "",
    text: str = "",
    runs: str = "",
    writes: str = "",
    ro: bool = True,
    single: bool = False,
) -> ProgramSpec:
    short_values = {
        flag[1] for flag in (text + " " + runs + " " + writes).split() if len(flag) == 2 and not single
    }
    return ProgramSpec(
        takes="".join(sorted(short_values | set(takes))) if not runs.startswith("!") else takes,
        long_takes=names(long)
        | frozenset(f for f in (text + " " + writes).split() if f.startswith("--") or single),
        text=names(text),
        runs=names(runs),
        writes=names(writes),
        operands=operands,
        read_only=ro,
        single_dash=single,
    )


_READER: Final = _row()
_TEXT: Final = _row("text")
_LOOK: Final = _row("look")

PROGRAMS: Final[dict[str, ProgramSpec]] = {
    # -- text in, text out
    **dict.fromkeys(
        names(
            "cat rev zcat bzcat xzcat zless zmore gzcat file md5sum sha1sum sha224sum sha256sum sha384sum "
            "sha512sum b2sum sum md5 shasum comm look"
        ),
        _READER,
    ),
    "base64": _row(text="-w --wrap", writes="-o"),
    **dict.fromkeys(names("base32 basenc"), _row(text="-w --wrap")),
    **dict.fromkeys(names("expand unexpand"), _row(text="-t --tabs")),
    **dict.fromkeys(names("fold fmt"), _row(text="-w --width -g --goal -p --prefix")),
    "tac": _row(text="-s --separator"),
    "strings": _row(text="-n --bytes -t --radix -e --encoding -T --target -s"),
    "column": _row(
        text="-s --separator -o --output-separator -c --output-width -N -H -R -W -O -E -T -n -r -i -p"
    ),
    "hexdump": _row(takes="f", text="-e -n -s"),
    "od": _row(text="-A --address-radix -j --skip-bytes -N --read-bytes -S --strings -t --format -w"),
    "cmp": _row(text="-i --ignore-initial -n --bytes"),
    "join": _row(text="-t -1 -2 -j -o -e -a -v"),
    "paste": _row(text="-d --delimiters"),
    "pr": _row(text="-l --length -w --width -h --header -o --indent -N --first-line-number -W --page-width"),
    "bat": _row(
        text="-l --language -r --line-range -H --highlight-line --theme --style --tabs --color --wrap --decorations --paging",
        runs="--pager",
    ),
    "pygmentize": _row(text="-l -f -O -P -F -N", writes="-o", ro=True),
    "head": _row(text="-n --lines -c --bytes"),
    "tail": _row(text="-n --lines -c --bytes -s --sleep-interval --pid"),
    "cut": _row(text="-d --delimiter -f --fields -c --characters -b --bytes --output-delimiter"),
    "wc": _row(long="--files0-from"),
    "diff": _row(text="-U -C -W -I -x --label -L"),
    "sdiff": _row(writes="-o --output"),
    "diff3": _row(runs="--diff-program"),
    "uniq": _row("read-write", text="-f --skip-fields -s --skip-chars -w --check-chars", ro=True),
    "xxd": _row("read-write", text="-c -g -l -o -s -n"),
    "sort": _row(
        text="-k --key -t --field-separator -S --buffer-size --parallel --batch-size",
        writes="-o --output -T --temporary-directory",
        runs="--compress-program",
        long="--files0-from",
    ),
    "shuf": _row(text="-n --head-count -i --input-range", writes="-o --output"),
    "iconv": _row(text="-f --from-code -t --to-code", writes="-o --output", ro=False),
    "gojq": _row("pattern-read"),
    "jq": _row(
        "pattern-read",
        takes="fL",
        text="--arg --argjson --indent --tab",
        long="--slurpfile --rawfile --from-file",
    ),
    "gron": _READER,
    "yq": _row("pattern-read", text="-o --output-format -p --input-format -I --indent", ro=False),
    "xmllint": _row(text="--xpath --encode", writes="--output", ro=False),
    "grep": _row(
        "pattern-read",
        takes="f",
        text="-e --regexp -A -B -C -m --max-count --include --exclude --exclude-dir "
        "--color --label --context --after-context --before-context -d -D",
        long="--file --exclude-from",
    ),
    "rg": _row(
        "pattern-read",
        takes="f",
        text="-e --regexp -A -B -C -m --max-count -g --glob -t --type -T --type-not -r "
        "--replace --sort --sortr --color -E --encoding -M -j --threads --iglob --type-add --max-depth --max-count "
        "--context --after-context --before-context --type --type-not --max-columns --max-filesize --colors --engine",
        long="--file --ignore-file",
        runs="--pre --hostname-bin",
    ),
    "ag": _row("pattern-read", text="-A -B -C -G -m --ignore", runs="--pager"),
    "ack": _row("pattern-read", text="-A -B -C -m --ignore-dir", runs="--pager", ro=False),
    "tr": _TEXT,
    # -- looking
    **dict.fromkeys(
        names(
            "ls dir vdir stat du df lsblk basename dirname pwd which whereis realpath readlink namei "
            "getfacl exa eza lsattr pathchk"
        ),
        _LOOK,
    ),
    "tree": _row("look", takes="L", text="-L -I -P --charset --filelimit --timefmt --sort", writes="-o"),
    **dict.fromkeys(
        names(
            "echo printf true false : uname whoami id groups users who w uptime free nproc arch getconf "
            "locale tput seq expr factor numfmt sleep cal ps pgrep lscpu lsusb lspci lsmod vmstat iostat "
            "top htop tty logname hostid help info type hash let shift break continue "
            "return exit wait jobs times umask getopts read pushd popd dirs bg fg disown ulimit caller "
            "shopt declare typeset local readonly export unset set cd test [ [[ cksum tsort yes nl "
            "lsb_release sw_vers pstree pidof mesg stty clear reset dircolors printenv bc ncal sync tldr "
            "cloc tokei scc ldd nm objdump readelf size"
        ),
        _TEXT,
    ),
    "ldd": _row(),
    "nm": _row(),
    "objdump": _row(),
    "readelf": _row(),
    "size": _row(),
    "cloc": _row(ro=False),
    "dc": _row("text"),
    # Later rows win over the lists above.
    "nl": _row(text="-b -d -f -h -i -l -n -s -v -w --number-width --number-separator --starting-line-number"),
    "cksum": _row(text="-a --algorithm -l --length"),
    "tsort": _row(),
    "basename": _TEXT,
    "dirname": _TEXT,
    "fuser": asks("may end processes that are not meant"),
    "date": _row("text", text="-d --date", takes="fr", ro=True),
    "apropos": _row("text", text="-s -m -M -L -l -e", runs="-C --config-file"),
    "whatis": _row("text", text="-s -m -M -L -l -e", runs="-C --config-file"),
    "locate": asks("searches the whole machine"),
    "plocate": asks("searches the whole machine"),
    "pegboard": asks("decides or runs what agents may do", decides=True),
    "man": _row(
        "text", text="-M -S -s -L -m -e -k", runs="-H --html -P --pager --preprocessor -p -C --config-file -T"
    ),
    "less": _row(runs="--lesskey-file --lesskey-src -k", writes="-o -O --log-file --LOG-FILE"),
    "more": _READER,
    "most": _READER,
    # -- changing files
    "touch": _row("write", takes="rd", text="-d --date -t", long="--reference", ro=False),
    "mkdir": _row("write", text="-m --mode", ro=False),
    "mkfifo": _row("write", text="-m --mode", ro=False),
    **dict.fromkeys(["tee", "sponge"], _row("write", ro=False)),
    "truncate": _row("write", takes="r", text="-s --size", ro=False),
    "fallocate": _row("write", text="-l --length -o --offset", ro=False),
    "chattr": _row("write", ro=False),
    "setfacl": _row("write", text="-m -x", ro=False),
    "patch": _row(
        "write", takes="i", text="-p --strip -F --fuzz", writes="-o --output -d --directory -r -B", ro=False
    ),
    "split": _row(
        "read-write",
        text="-b --bytes -l --lines -n --number -a --suffix-length -C",
        runs="--filter",
        ro=False,
    ),
    "csplit": _row(text="-b -n", writes="-f --prefix", ro=False),
    **dict.fromkeys(
        names(
            "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma pigz unpigz pbzip2 lzip lzop compress uncompress"
        ),
        _row("write", text="-S --suffix", ro=False),
    ),
    "zstd": _row("write", writes="-o", ro=False),
    **dict.fromkeys(["lz4", "brotli"], _row("write", text="-o", ro=False)),
    **dict.fromkeys(names("rimraf del-cli trash trash-put rip rmtrash"), _row("delete", ro=False)),
    "dos2unix": _row("write", ro=False),
    "unix2dos": _row("write", ro=False),
    "rename": _row("doubtful", ro=False),
    "ar": _row("doubtful", ro=False),
    "cpio": _row(
        "doubtful", takes="EFIO", writes="-O -D --directory", runs="--rsh-command --to-command", ro=False
    ),
    "ffmpeg": _row(
        "write",
        takes="",
        text="-f -ss -t -to -vf -af -c -b -r -s -vcodec -acodec -c:v -c:a -b:v -b:a -crf "
        "-preset -map -filter_complex -pix_fmt -vframes -frames:v -q:v -loglevel -an",
        long="-i",
        single=True,
        ro=False,
    ),
    "convert": _row("doubtful", ro=False),
    "openssl": _row(
        "doubtful", runs="-engine -provider", writes="-out -keyout", text="-in", single=True, ro=False
    ),
    **dict.fromkeys(
        names("latex pdflatex xelatex lualatex tex pdftex luatex latexmk"),
        _row(
            "doubtful",
            single=True,
            ro=False,
            runs="-shell-escape --shell-escape -enable-write18 --enable-write18",
            writes="-output-directory --output-directory -outdir",
        ),
    ),
    "ctags": _row(runs="--options", writes="-f -o", ro=False),
    # -- programs that change the machine
    **dict.fromkeys(
        names(
            "mkfs mke2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs "
            "mkntfs mkdosfs mkswap mkreiserfs newfs wipefs blkdiscard diskpart zpool badblocks sgdisk "
            "hdparm nvme fdformat"
        ),
        asks("formats or wipes a disk", "deny"),
    ),
    **dict.fromkeys(
        names(
            "fdisk sfdisk cfdisk parted gdisk cryptsetup pvcreate vgremove lvremove mdadm resize2fs "
            "e2fsck fsck tune2fs debugfs losetup dmsetup format"
        ),
        asks("changes disks or file systems"),
    ),
    **dict.fromkeys(
        names("shutdown reboot poweroff halt telinit init runlevel kexec pm-suspend pm-hibernate"),
        asks("stops or restarts the machine", "deny"),
    ),
    **dict.fromkeys(
        names(
            "useradd usermod userdel adduser deluser groupadd groupmod groupdel addgroup gpasswd passwd "
            "chpasswd chsh chfn vipw visudo newusers pwconv vigr chage dscl sysadminctl"
        ),
        asks("changes users or their rights", "deny"),
    ),
    **dict.fromkeys(
        names(
            "setcap mknod insmod modprobe rmmod depmod pivot_root swapon swapoff chroot nsenter umount "
            "iptables ip6tables iptables-restore nft ufw firewall-cmd ebtables arptables pfctl tc "
            "setenforce semanage apparmor_parser aa-disable auditctl update-grub grub-install efibootmgr "
            "update-rc.d chkconfig update-alternatives dpkg-reconfigure hwclock adjtimex ntpdate visudo "
            "cgcreate nvram csrutil spctl kmutil bpftool ldconfig authconfig pam-auth-update kldload "
            "resolvectl resolvconf systemd-resolve nmcli chvt setfont loadkeys zfs btrfs snapper timeshift "
            "lvcreate lvextend lvreduce vgcreate pvremove quotaon edquota setquota gsettings dconf defaults"
        ),
        asks("changes the system"),
    ),
    **dict.fromkeys(
        names(
            "at batch atrm anacron launchctl schtasks systemd-run systemd-tmpfiles loginctl machinectl "
            "runcon start-stop-daemon run-parts incrontab fcrontab update-desktop-database xdg-autostart "
            "supervisorctl"
        ),
        asks("starts something later or outside this command", decides=True),
    ),
    **dict.fromkeys(
        names(
            "expect gdb lldb emacs emacsclient ed ex screen tmux osascript m4 gnuplot octave tclsh wish "
            "guile sbcl gs ghostscript dbus-send gdbus busctl qdbus xdotool ydotool wmctrl "
            "zsh-newuser-install logrotate ld.so kdialog zenity notify-send xdg-open xdg-mime xdg-settings open gnome-terminal code code-insiders codium cursor windsurf subl "
            "xterm konsole x-terminal-emulator dbus-launch qemu-system-x86_64 qemu VBoxManage virsh "
            "vagrant lxc lxd incus firejail bwrap proot runc crun ctr nerdctl criu dtrace bpftrace perf "
            "vboxmanage stap sysdig eval-script autoexpect unbuffer-script gcore pstack"
        ),
        asks("runs what its arguments or input say, which cannot be judged", decides=True),
    ),
    **OUTSIDE,
    **dict.fromkeys(
        names(
            "xwd import scrot maim grim gnome-screenshot spectacle flameshot screencapture arecord parecord parec "
            "pw-record fswebcam imagesnap xclip xsel pbpaste wl-paste"
        ),
        asks("reads the screen, a microphone, a camera or the clipboard"),
    ),
    **dict.fromkeys(
        names(
            "history fc logger wall write talk killall killall5 skill slay xkill crontab script "
            "scriptreplay watch-exec trickle renice chcpu taskkill"
        ),
        asks("reaches beyond this command"),
    ),
    **dict.fromkeys(
        [
            "enable",
            "bind",
            "complete",
            "compgen",
            "compopt",
            "coproc",
            "zmodload",
            "ztcp",
            "zsocket",
            "zpty",
            "autoload",
            "zle",
        ],
        asks("changes what the shell itself runs", decides=True),
    ),
    "alembic": _row("doubtful", ro=False),
    **dict.fromkeys(["direnv", "mise", "rtx", "asdf"], asks("decides what runs in this folder from now on")),
}

NETWORK: Final = names(
    "curl wget wget2 aria2c axel http https httpie xh curlie ssh slogin scp sftp ftp lftp ncftp tftp telnet rlogin rsh rcp nc "
    "ncat netcat socat nmap masscan zmap dig nslookup host drill kdig delv ping ping6 fping traceroute tracepath mtr whois "
    "finger mail mailx sendmail mutt swaks msmtp ssmtp smbclient smbget rpcclient ldapsearch snmpwalk snmpget nfs-ls "
    "websocat grpcurl hey ab wrk siege iperf iperf3 openvpn wg wg-quick tailscale ngrok cloudflared localtunnel lt bore "
    "frpc chisel sshuttle autossh mosh tsocks torsocks torify proxychains proxychains4 yt-dlp youtube-dl lynx links elinks "
    "w3m svn cvs hg bzr fossil transmission-cli magic-wormhole wormhole croc rclone irssi xfreerdp vncviewer arp-scan "
    "tcpdump tshark dumpcap ettercap hping3 showmount mount.nfs sshfs gcloud-ssh kcat mosquitto_pub mosquitto_sub "
    "nats gsocket pwncat rustcat ipfs telebit evil-winrm exa-fetch ntpq chronyc dhclient whatweb nikto sqlmap hydra"
)
"""Programs whose purpose is to reach other machines."""

UNFETTERED_ENV: Final = names(
    "PATH BASH_ENV ENV PROMPT_COMMAND PS4 PS0 SHELLOPTS BASHOPTS BASH_LOADABLES_PATH BASH_XTRACEFD IFS CDPATH FPATH ZDOTDIR "
    "PAGER EDITOR VISUAL MANPAGER MANOPT MANPATH BROWSER LESSOPEN LESSCLOSE LESS LESSKEY LESSKEYIN LESSKEY_SYSTEM PYTHONSTARTUP PYTHONHOME "
    "PYTHONINSPECT PYTHONBREAKPOINT PYTHONUSERBASE PYTHONPATH PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONWARNINGS "
    "PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_HOME NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS "
    "JDK_JAVA_OPTIONS CLASSPATH GCONV_PATH LOCPATH NLSPATH HOSTALIASES LOCALDOMAIN RES_OPTIONS TERMINFO TERMINFO_DIRS "
    "SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR SHELL HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL RSYNC_RSH CVS_RSH SVN_SSH "
    "TAR_OPTIONS GREP_OPTIONS RIPGREP_CONFIG_PATH GZIP XZ_OPT POSIXLY_CORRECT MAKEFLAGS MFLAGS GNUMAKEFLAGS RUSTC_WRAPPER "
    "RUSTC CARGO_BUILD_RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE "
    "PIP_TRUSTED_HOST UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX GOPROXY GONOSUMDB GOFLAGS GOSUMDB GONOSUMCHECK "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE "
    "NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS PHPRC PHP_INI_SCAN_DIR LUA_INIT "
    "LUA_PATH LUA_CPATH R_PROFILE R_PROFILE_USER R_ENVIRON JULIA_LOAD_PATH GUILE_LOAD_PATH EMACSLOADPATH VIMINIT EXINIT "
    "GVIMINIT MYVIMRC INPUTRC OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES GTK_MODULES QT_PLUGIN_PATH DOCKER_HOST DOCKER_CONFIG DOCKER_CONTEXT DOCKER_CERT_PATH DOCKER_TLS_VERIFY KUBECONFIG "
    "MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS SBT_OPTS ANT_OPTS AWKPATH AWKLIBPATH COMSPEC PSMODULEPATH ELECTRON_RUN_AS_NODE "
    "MALLOC_PERTURB_X PYTEST_PLUGINS FCEDIT PSQL_EDITOR PSQL_PAGER SYSTEMD_PAGER SYSTEMD_EDITOR DELTA_PAGER BAT_PAGER "
    "GH_PAGER GLOW_PAGER AWS_PAGER BASH_ALIASES BASH_CMDS NODE_REPL_EXTERNAL_MODULE TEXINPUTS TMUX LS_OPTIONS FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS TAPE RSH PS1 PS2 PS3"
)
"""Variables that decide what runs, what is trusted or where traffic goes."""

ENV_PREFIXES: Final = (
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "NPM_CONFIG_",
    "PIP_",
    "UV_INDEX",
    "GCC_EXEC",
    "CARGO_TARGET_",
    "YARN_",
)
HARMLESS_ENV: Final = names(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT GIT_TRACE LD_BIND_NOW PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK "
    "PIP_QUIET PIP_NO_CACHE_DIR NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES NPM_CONFIG_FUND NPM_CONFIG_AUDIT"
)
HARMLESS_PROGRAM_VALUES: Final = names("true : cat false less more vi vim nano sccache ccache")

SHELLS: Final = names(
    "sh bash dash zsh ksh mksh ash fish csh tcsh rbash yash pwsh powershell elvish nu xonsh oksh"
)
INTERPRETERS: Final = names(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit Rscript R julia "
    "ts-node tsx raku elixir erl groovy scala kotlin jshell clojure clj ghc runghc runhaskell swift dart racket crystal "
    "ipython bpython nim jruby iex osascript janet hy coffee"
)

PRIVILEGE: Final = names(
    "sudo su doas pkexec runuser gosu su-exec setpriv sudoedit calife super dzdo please run0 capsh newgrp sg"
)
