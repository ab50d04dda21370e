import ArgumentParser
import MegatonCluster
import MegatonCommandLine

/// The program `megaton`.
@main
struct MegatonCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "megaton",
        abstract:
            "Makes thumbnails by the million: fetches, caches, decodes, resizes and stores images on many workers.",
        discussion: """
            Examples:
              megaton run photos -o thumbs
              megaton run urls.txt -o thumbs --size 320 --size 1280x --format webp
              megaton submit urls.txt -o /srv/thumbs --redis redis://127.0.0.1:6479 --wait
              megaton status --redis redis://127.0.0.1:6479
              megaton config show run

            Each option of a command can also come from a variable or a file: see megaton config --help.
            """,
        version: Megaton.version,
        groupedSubcommands: [
            CommandGroup(
                name: "Make Thumbnails",
                subcommands: [RunCommand.self, PlanCommand.self, SubmitCommand.self]
            ),
            CommandGroup(
                name: "Run a Cluster",
                subcommands: [CoordinatorCommand.self, WorkerCommand.self, ServeCommand.self]
            ),
            CommandGroup(
                name: "Watch a Cluster",
                subcommands: [
                    StatusCommand.self, TopCommand.self, StatsCommand.self, DoctorCommand.self, ExplainCommand.self,
                    ReportCommand.self,
                ]
            ),
            CommandGroup(
                name: "Administer a Cluster",
                subcommands: [
                    BatchCommand.self, JobCommand.self, DeadCommand.self, QueueCommand.self, CacheCommand.self,
                ]
            ),
            CommandGroup(name: "Configure", subcommands: [ConfigCommand.self]),
        ]
    )

    /// Accepted in front of a command and behind it. ``CommandLineArguments`` reads the file before the parser runs;
    /// only `megaton config` uses the value from here.
    @Option(
        name: .long,
        help: ArgumentHelp(
            "File with options, in the place of those of the user and of the system.",
            valueName: "file"
        ),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    static func main() { runProgram(.program) }
}

extension ConfigurationRules {
    /// The rules of `megaton`. On the command line only are options that name the jobs, batches and entries on which a
    /// command works, and those that let it delete or give up something.
    static let program: ConfigurationRules = {
        var rules = ConfigurationRules()
        rules.applies = { $0 != "config" }
        rules.commandLineOnly = [
            "": [
                "accept-loss", "all", "batch", "delay", "delete-orphans", "error", "from", "host", "jobs", "jobs-from",
                "prefix", "repair", "retry-failed", "yes",
            ],
            // Other renditions than those that are made.
            "cache purge": ["rendition"], "cache show": ["rendition"],
            // A file, and not the directory of outputs.
            "report": ["output"],
        ]
        rules.inherited = ["plan": "run"]
        rules.together = [["redis-cert", "redis-key"]]
        rules.dependents = ["redis": ["cache-redis"]]
        rules.alternatives = [
            [["preset"], RenditionOptions.names], [["force"], ["refresh"]], [["json"], ["prometheus"]],
            [["verbose"], ["log-level"]], [["tokens"], ["open"]],
        ]
        rules.secretVariables = ImageRouteOptions.secretVariables
        return rules
    }()
}
