import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// The arguments that the parser gets: those of the command line, of variables, and of files.
@Suite(.timeLimit(.minutes(1))) struct CommandLineArgumentsTests {
    /// The arguments for a command line; the text is the file of the system.
    private func arguments(
        _ line: [String],
        _ environment: [String: String] = [:],
        _ toml: String = ""
    ) throws -> [String] {
        let directory = try TestDirectory()
        defer { directory.remove() }
        var rules = ConfigurationRules.program
        rules.systemFile = try directory.write(Data(toml.utf8), to: "megaton.toml")
        return try CommandLineArguments(line, root: MegatonCommand.self, rules: rules, environment: environment)
            .arguments
    }

    @Test func theCommandLineRanksAboveVariablesAndTheseAboveFiles() throws {
        let common = "concurrency = 2\n"
        let own = common + "[worker]\nconcurrency = 3\n"
        let variable = ["MEGATON_CONCURRENCY": "4"]
        #expect(try arguments(["worker"]) == ["worker"])
        #expect(try arguments(["worker"], [:], common) == ["worker", "--concurrency=2"])
        #expect(try arguments(["worker"], [:], own) == ["worker", "--concurrency=3"])
        #expect(try arguments(["worker"], variable, own) == ["worker", "--concurrency=4"])
        #expect(try arguments(["worker"], ["MEGATON_CONCURRENCY": ""], own) == ["worker", "--concurrency=3"])
        for typed in [["--concurrency", "5"], ["--concurrency=5"]] {
            #expect(try arguments(["worker"] + typed, variable, own) == ["worker"] + typed)
        }
        #expect(try arguments(["coordinator"], variable, own) == ["coordinator"], "it has no such option")
    }

    @Test func misspelledVariablesAreReported() throws {
        func remarks(_ environment: [String: String]) throws -> [String] {
            var rules = ConfigurationRules.program
            rules.readsFiles = false
            return try CommandLineArguments(
                ["run", "photos"],
                root: MegatonCommand.self,
                rules: rules,
                environment: environment
            ).remarks
        }
        #expect(
            try remarks(["MEGATON_QUALTY": "80"])
                == ["the variable MEGATON_QUALTY has no effect. Did you mean MEGATON_QUALITY?"]
        )
        #expect(
            try remarks(["MEGATON_DELETE_ORPHANS": "1"]) == [
                "the variable MEGATON_DELETE_ORPHANS has no effect: --delete-orphans can be given on the command line only."
            ]
        )
        // Fault: a confirmation by a variable was ignored without a word.
        #expect(
            try remarks(["MEGATON_YES": "1"])
                == ["the variable MEGATON_YES has no effect: --yes can be given on the command line only."]
        )
        // Of this command, of another one, a secret, of a unit, of a package, short ones of others, and none at all.
        let others = [
            "MEGATON_QUALITY", "MEGATON_LEASE", "MEGATON_SALT", "MEGATON_WORKER_OPTIONS", "MEGATON_HOME",
            "MEGATON_DISK", "MEGATON_VERSION", "QUALTY",
        ]
        #expect(try remarks(Dictionary(uniqueKeysWithValues: others.map { ($0, "20") })) == [])
        #expect(try remarks(["MEGATON_QUALTY": ""]) == [], "an empty variable counts as unset")
    }

    @Test func theFileOfTheUserRanksAboveThatOfTheSystem() throws {
        let directory = try TestDirectory()
        var rules = ConfigurationRules.program
        let system = "queue = \"s\"\n[worker]\nconcurrency = 2\nlease = 20\n"
        rules.systemFile = try directory.write(Data(system.utf8), to: "megaton.toml")
        try directory.write(Data("concurrency = 3\n".utf8), to: "xdg/megaton/config.toml")
        try directory.write(Data("concurrency = 4\n".utf8), to: "home/.config/megaton/config.toml")
        let named = try directory.write(Data("concurrency = 5\n".utf8), to: "named.toml")
        let home = ["HOME": directory.path + "/home"]
        let xdg = home.merging(["XDG_CONFIG_HOME": directory.path + "/xdg"]) { _, new in new }
        func read(_ line: [String], _ environment: [String: String]) throws -> [String] {
            try CommandLineArguments(line, root: MegatonCommand.self, rules: rules, environment: environment).arguments
        }
        // In the order of the options; a key above the sections of one file ranks above the section of the other.
        #expect(try read(["worker"], xdg) == ["worker", "--queue=s", "--concurrency=3", "--lease=20"])
        #expect(try read(["worker"], home).contains("--concurrency=4"))
        #expect(try read(["worker"], ["XDG_CONFIG_HOME": "xdg"]).contains("--concurrency=2"), "relative paths")
        // A file that is named is the only one.
        let only = ["worker", "--concurrency=5"]
        #expect(try read(["worker"], xdg.merging(["MEGATON_CONFIG": named]) { _, new in new }) == only)
        #expect(
            try read(["worker", "--config", named], xdg.merging(["MEGATON_CONFIG": "/no"]) { _, new in new }) == only
        )
        #expect(try read(["--config=\(named)", "worker"], xdg) == only)
        #expect(try read(["worker", "--config", "/dev/null"], xdg) == ["worker"])
    }

    @Test func typedOptionsAreFoundInAllTheirForms() throws {
        let environment = ["MEGATON_WORKERS": "2", "MEGATON_OUTPUT": "x", "MEGATON_QUIET": "true"]
        for line in [["-o", "out", "-j4", "-q"], ["-oout", "--workers=4", "--quiet"], ["--output=out", "-qj", "4"]] {
            #expect(try arguments(["run", "a"] + line, environment) == ["run", "a"] + line)
        }
        // A value is not taken for an option, and nothing behind the terminator is one.
        let injected = ["--quiet", "--output=x", "--workers=2"]
        #expect(try arguments(["run", "--", "--output"], environment) == ["run"] + injected + ["--", "--output"])
        #expect(try arguments(["run", "--name", "-q"], ["MEGATON_QUIET": "1"]).contains("--quiet"))
    }

    @Test func listsAreReplacedAsAWhole() throws {
        let toml = "size = [\"1x1\", 2]\nexclude = \"-a b\"\n"
        #expect(try arguments(["run"], [:], toml) == ["run", "--exclude=-a b", "--size=1x1", "--size=2"])
        let words = ["MEGATON_SIZE": " 3x3\n4x4 ", "MEGATON_EXCLUDE": #"["a b", "[c]"]"#]
        let both = ["run", "--exclude=a b", "--exclude=[c]", "--size=3x3", "--size=4x4"]
        #expect(try arguments(["run"], words, toml) == both)
        #expect(try arguments(["run"], ["MEGATON_EXCLUDE": "[ab]*.gif"]) == ["run", "--exclude=[ab]*.gif"])
        #expect(try arguments(["run", "--size", "5"], words, toml).filter { $0.hasPrefix("--size") } == ["--size"])
        #expect(try arguments(["run"], [:], "size = []\n") == ["run"])
    }

    @Test func aVariableAndTheCommandLineTurnAFlagOff() throws {
        let toml = "allow-private = true\n"
        #expect(try arguments(["worker"], [:], toml) == ["worker", "--allow-private"])
        #expect(try arguments(["worker"], ["MEGATON_ALLOW_PRIVATE": "false"], toml) == ["worker"])
        #expect(try arguments(["worker", "--no-allow-private"], [:], toml) == ["worker"])
        #expect(try arguments(["run", "a", "--no-redis"], ["MEGATON_REDIS": "redis://h"]) == ["run", "a"])
        let both = ["MEGATON_REDIS": "redis://h", "MEGATON_CACHE_REDIS": "redis://c"]
        #expect(try arguments(["run", "a", "--no-redis"], both) == ["run", "a"], "a private Redis has no cache Redis")
        #expect(try arguments(["run", "--", "--no-redis"]) == ["run", "--", "--no-redis"])
        let error = #expect(throws: CLIError.self) { try arguments(["worker"], ["MEGATON_ALLOW_PRIVATE": "maybe"]) }
        #expect(error?.code == 64 && error?.message.contains("MEGATON_ALLOW_PRIVATE must be true or false") == true)
    }

    /// A certificate does not get the key of another source.
    @Test func certificateAndKeyComeFromOneSource() throws {
        let environment = ["MEGATON_REDIS_CERT": "c", "MEGATON_REDIS_KEY": "k"]
        #expect(try arguments(["status"], environment) == ["status", "--redis-cert=c", "--redis-key=k"])
        #expect(try arguments(["status", "--redis-cert", "x"], environment) == ["status", "--redis-cert", "x"])
        let toml = "redis-key = \"f\"\n"
        #expect(try arguments(["status"], ["MEGATON_REDIS_CERT": "c"], toml) == ["status", "--redis-cert=c"])
    }

    @Test func aPresetAndRenditionsExcludeEachOther() throws {
        let toml = "size = \"1x1\"\nquality = 50\n"
        #expect(try arguments(["run", "--preset", "web"], [:], toml) == ["run", "--preset", "web"])
        #expect(try arguments(["run"], ["MEGATON_PRESET": "web"], toml) == ["run", "--preset=web"])
        #expect(try arguments(["run", "--fit", "cover"], ["MEGATON_PRESET": "web"]) == ["run", "--fit", "cover"])
        // A section ranks above the keys above it.
        #expect(try arguments(["run"], [:], toml + "[run]\npreset = \"web\"\n") == ["run", "--preset=web"])
    }

    @Test func aFlagThatIsOffExcludesNothing() throws {
        #expect(try arguments(["run"], ["MEGATON_FORCE": "false"], "refresh = true\n") == ["run", "--refresh"])
        #expect(try arguments(["run"], ["MEGATON_FORCE": "true"], "refresh = true\n") == ["run", "--force"])
    }

    @Test func aPlanTakesTheOptionsOfTheRun() throws {
        let toml = "[run]\nsize = \"1x1\"\nquality = 50\n[plan]\nquality = 60\n"
        #expect(try arguments(["plan"], [:], toml) == ["plan", "--size=1x1", "--quality=60"])
        #expect(try arguments(["submit"], [:], toml) == ["submit"])
    }

    /// Names of jobs, batches and entries, and permission to delete, are typed.
    @Test func selectionsComeFromTheCommandLineOnly() throws {
        let environment = [
            "MEGATON_ALL": "true", "MEGATON_BATCH": "b", "MEGATON_HOST": "h", "MEGATON_PREFIX": "https://h/",
            "MEGATON_RENDITION": "width=1", "MEGATON_YES": "true", "MEGATON_REPAIR": "true",
            "MEGATON_ACCEPT_LOSS": "true", "MEGATON_ONLY_SUSPECTS": "true", "MEGATON_RETRY_FAILED": "l",
            "MEGATON_HELP": "true", "MEGATON_VERSION": "true",
        ]
        for line in [
            ["cache", "purge", "u"], ["dead", "drop", "i"], ["dead", "list"], ["doctor"], ["queue", "reshard", "2"],
            ["worker"], ["batch", "close", "b"],
        ] {
            #expect(try arguments(line, environment) == line)
        }
        #expect(try arguments(["run"], environment) == ["run", "--rendition=width=1"])
    }

    /// No invalid file prevents help, and a command about files reads them itself.
    @Test(arguments: [
        ["worker", "--help"], ["worker", "-h"], ["--version"], ["help", "run"],
        ["--generate-completion-script", "bash"],
        ["--experimental-dump-help"], ["config", "check", "f"], ["config", "show"], ["cache"], [], ["--help"],
        ["unknown"],
    ])
    func anInvalidFileDoesNotPreventHelp(_ line: [String]) throws {
        #expect(try arguments(line, [:], "not TOML") == line)
        #expect(throws: CLIError.self) { try arguments(["worker"], [:], "not TOML") }
    }

    @Test(arguments: [["worker", "--config"], ["worker", "--config="], ["worker", "--config", "a", "--config", "b"]])
    func theFileIsNamedOnce(_ line: [String]) {
        let error = #expect(throws: CLIError.self) { try arguments(line) }
        #expect(error?.code == 64 && error?.message.hasPrefix("--config") == true)
    }

    @Test func messagesNameTheOriginInThePlaceOfTheOption() {
        let origins = ["--redis": "MEGATON_REDIS", "--size": "/f.toml:run.size"]
        let about = OptionOrigins.renamed("--size must fit --redis-ca, x--size and '--redis <url>'.", origins)
        #expect(about.text == "/f.toml:run.size must fit --redis-ca, x--size and 'MEGATON_REDIS <url>'.")
        #expect(about.options == ["--size", "--redis"] && about.isAboutOrigin)
        let other = OptionOrigins.renamed("--memory has no effect with --redis.", origins)
        #expect(other.text == "--memory has no effect with MEGATON_REDIS." && !other.isAboutOrigin)
        #expect(OptionOrigins.renamed("--size", [:]).text == "--size")
    }
}
