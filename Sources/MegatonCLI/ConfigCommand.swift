import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton config`
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the options that come from variables and files, and check a file.",
        discussion: """
            An option that is not typed comes from its variable: MEGATON_ and its name in capitals, with _ for -. \
            Otherwise it comes from a file of TOML: that of --config or MEGATON_CONFIG, or else \
            $XDG_CONFIG_HOME/megaton/config.toml ($HOME/.config without this variable) and then \
            /etc/megaton/megaton.toml. Never from the current directory. --no-NAME ignores variable and file for a \
            call.

            Keys are the long names of options. Those of one command are in its section:

              redis = "redis://127.0.0.1:6479"
              [worker]
              allow-root = ["/srv/thumbs"]
              max-pixels = 100
              [cache.purge]
              dry-run = true

            Examples:
              megaton config show worker
              megaton config check /etc/megaton/megaton.toml
            """,
        subcommands: [ConfigShowCommand.self, ConfigCheckCommand.self]
    )
}

/// `megaton config show`
struct ConfigShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show each option of a command, its value, and where that comes from.",
        discussion: """
            Examples:
              megaton config show
              megaton config show cache purge
              megaton config show run --json

            Without a command: the files, and the options of all commands that variables and files set. Passwords, \
            users and queries of URLs are not shown.
            """
    )

    @Argument(help: ArgumentHelp("The command, such as run or cache purge.", valueName: "command"))
    var command: [String] = []

    @ParentCommand private var program: MegatonCommand

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    func run() async throws {
        try await reportingFailures {
            let report = try ConfigurationReport(
                MegatonCommand.self,
                rules: .program,
                file: program.config,
                command: command.flatMap { $0.split(separator: " ").map(String.init) }
            )
            for remark in report.remarks { Terminal.error("megaton: \(remark)") }
            try Terminal.output(json ? try JSONText.pretty(report) : report.text)
        }
    }
}

/// `megaton config check`
struct ConfigCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a file: its names, and each value as its command checks it. Exits 78 if it is invalid.",
        discussion: """
            Examples:
              megaton config check
              megaton config check /etc/megaton/megaton.toml

            It also reads the files of --credentials, --fallback-image, --image-presets, --presets, --tokens and \
            --webhook-key and the images of --watermarks, as the user that runs it, and reports each that a command \
            could not use. Relative paths begin at the current directory. Pipes and devices are not read.
            """
    )

    @Argument(
        help: ArgumentHelp(
            "The file; by default that of --config, or those of the user and of the system.",
            valueName: "file"
        ),
        completion: .file(extensions: ["toml"])
    )
    var path: String?

    @ParentCommand private var program: MegatonCommand

    mutating func validate() throws {
        if path?.isEmpty == true { throw ValidationError("The file is empty; it must be a name.") }
    }

    func run() async throws {
        try await reportingFailures {
            let files = try ConfigurationReport.files(named: path ?? program.config, rules: .program)
            if files.isEmpty { try Terminal.output("there is no configuration file") }
            let check = ConfigurationCheck(MegatonCommand.self, rules: .program)
            var hasFaults = false
            for file in files {
                try check.check(file)
                var named = NamedFileCheck(check)
                try await named.read(file)
                for line in named.faults + named.remarks { Terminal.error("megaton: \(line)") }
                if named.faults.isEmpty {
                    try Terminal.output("\(file.path) is valid")
                } else {
                    hasFaults = true
                }
            }
            if hasFaults { throw ExitCode(78) }
        }
    }
}
