import Foundation
import MegatonTestSupport
import Testing

/// Variables and files, as an operator uses them with the program.
@Suite(.timeLimit(.minutes(2))) struct ConfigurationProgramTests {
    /// A home with a configuration file of its user.
    private struct Home {
        let directory: TestDirectory
        var file: String { directory.path + "/xdg/megaton/config.toml" }

        init(_ toml: String? = nil) throws {
            directory = try TestDirectory()
            if let toml { try directory.write(Data(toml.utf8), to: "xdg/megaton/config.toml") }
        }

        func run(_ arguments: [String], _ environment: [String: String] = [:]) async throws -> ProgramUnderTest.Ending {
            let own = [
                "MEGATON_CONFIG": "", "XDG_CONFIG_HOME": directory.path + "/xdg", "HOME": directory.path,
                "XDG_CACHE_HOME": directory.path + "/cache",
            ]
            return await
                (try ProgramUnderTest.megaton(
                    arguments,
                    environment: own.merging(environment) { _, new in new },
                    directory: directory.path
                )).ending()
        }
    }

    private struct Shown: Decodable {
        struct Row: Decodable {
            let option: String
            let value: String?
            let origin: String
        }

        let files: [String]
        let options: [Row]
    }

    @Test func aRunTakesItsRenditionsFromFileVariableAndCommandLine() async throws {
        let home = try Home("size = [\"10x10\", \"11x11\"]\n[run]\noutput = \"out\"\n")
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let file = try await home.run(["run", "in", "--dry-run"])
        #expect(file.code == 0, "\(file.errors)")
        #expect(file.output.contains("out/a-10x10.jpg") && file.output.contains("out/a-11x11.jpg"), "\(file.output)")
        let variable = ["MEGATON_SIZE": "20x20 21x21"]
        let other = try await home.run(["run", "in", "--dry-run"], variable)
        #expect(other.output.contains("a-20x20") && other.output.contains("a-21x21"), "\(other.output)")
        #expect(!other.output.contains("a-10x10"))
        let flag = try await home.run(["run", "in", "--dry-run", "--size", "30x30"], variable)
        #expect(flag.output.contains("a-30x30") && !flag.output.contains("a-20x20"), "\(flag.output)")
    }

    // Fault: a default for other runs refused an option of the command line.
    @Test(arguments: [
        (["--output", "tar:shards"], ["MEGATON_LOCAL_CACHE": "near"]),
        (["--output", "tar:shards"], ["MEGATON_CACHE_POLICY": "none"]),
        (["--output", "tar:shards"], ["MEGATON_NAME": "{stem}.{ext}"]),
        (["--output", "out", "--ledger", "-"], ["MEGATON_JSON": "true"]),
        (["--output", "out", "--json"], ["MEGATON_LEDGER": "-"]),
        (["--output", "out", "--ledger", "/dev/stdout"], ["MEGATON_REPORT": "true"]),
        (["--output", "out", "--input-format", "csv"], ["MEGATON_NULL": "true"]),
        (["--output", "out", "--report"], ["MEGATON_LEDGER": "-"]),
        (["--output", "out", "--null"], ["MEGATON_INPUT_FORMAT": "csv"]),
    ])
    func aTypedOptionRanksAboveADefault(_ typed: [String], _ variables: [String: String]) async throws {
        let home = try Home()
        let path = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        try home.directory.write(Data("url\n\(path)\n".utf8), to: "list.csv")
        try home.directory.write(Data("\(path)\0".utf8), to: "list.txt")
        let input = typed.contains("csv") ? "list.csv" : typed.contains("--null") ? "list.txt" : "in"
        let ending = try await home.run(["run", input, "--size", "8x8", "--workers", "1"] + typed, variables)
        #expect(ending.code == 0, "\(typed) \(variables): \(ending.errors)")
    }

    /// The workers of a run have the options of the run, and not those of `megaton worker`.
    @Test func theWorkersOfARunIgnoreVariablesAndFilesOfWorkers() async throws {
        let home = try Home("[worker]\nconcurrency = 0\nhealth = \"nowhere\"\n")
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let environment = ["MEGATON_LEASE": "0", "MEGATON_HISTORY": "/no/such/directory/history"]
        let ending = try await home.run(["run", "in", "-o", "out", "-j1", "--size", "8x8"], environment)
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(home.directory.files.contains("out/a-8x8.jpg"))
    }

    @Test func errorsNameTheOrigin() async throws {
        let home = try Home("[worker]\nconcurrency = 0\n")
        let file = try await home.run(["worker"])
        let words = "\(home.file):worker.concurrency must be 1 to 1024, not 0."
        #expect(file.code == 78 && file.errors.contains(words), "\(file.errors)")
        #expect(file.errors.contains("add --no-concurrency"))
        let variable = try await home.run(["worker"], ["MEGATON_CONCURRENCY": "many"])
        let kind = "MEGATON_CONCURRENCY must be a whole number, not \"many\"."
        #expect(variable.code == 64 && variable.errors.contains(kind), "\(variable.errors)")
        let typed = try await home.run(["worker", "--concurrency", "-1"])
        #expect(typed.code == 64 && typed.errors.contains("--concurrency must be"), "\(typed.errors)")
        let without = try await home.run(["worker", "--no-concurrency"])
        #expect(without.code == 64 && without.errors.contains("no Redis is named"), "\(without.errors)")
    }

    @Test func aFileWithFaultsStopsCommandsAndNotTheirHelp() async throws {
        let home = try Home("max-pixel = 5\n")
        let status = try await home.run(["status", "--redis", "redis://127.0.0.1:1"])
        #expect(status.code == 78 && status.errors.contains("Did you mean max-pixels?"), "\(status.errors)")
        for line in [["status", "--help"], ["--version"], ["--help"], ["--generate-completion-script", "zsh"]] {
            #expect(try await home.run(line).code == 0)
        }
        let missing = try await home.run(["status", "--config", "/no/such.toml"])
        #expect(missing.code == 66 && missing.errors.contains("/no/such.toml"), "\(missing.errors)")
    }

    @Test func filesOfTheCurrentDirectoryAreIgnored() async throws {
        let home = try Home()
        for name in ["megaton.toml", "config.toml", "megaton/config.toml", ".megaton.toml"] {
            try home.directory.write(Data("not TOML".utf8), to: name)
        }
        let shown = try await home.run(["config", "show", "worker"])
        #expect(shown.code == 0 && !shown.output.contains(home.directory.path), "\(shown.errors)")
    }

    @Test func showHasEachOptionWithItsOrigin() async throws {
        let home = try Home("attempts = 3\nallow-root = [\"/a b\", \"/c\"]\n[run]\nmax-wait = 7\n")
        let environment = ["MEGATON_REDIS": "redis://:pass@h?password=word", "MEGATON_WEIGHTS": "1"]
        let shown = try await home.run(["config", "show", "run", "--json"], environment)
        #expect(shown.code == 0, "\(shown.errors)")
        let report = try JSONDecoder().decode(Shown.self, from: Data(shown.output.utf8))
        #expect(report.files.first == home.file)
        let rows = Dictionary(report.options.map { ($0.option, $0) }) { first, _ in first }
        #expect(rows["attempts"]?.value == "3" && rows["attempts"]?.origin == "\(home.file):attempts")
        #expect(rows["max-wait"]?.origin == "\(home.file):run.max-wait")
        #expect(rows["allow-root"]?.value == "/a b /c")
        #expect(rows["cache-size"]?.value == "1024" && rows["cache-size"]?.origin == "default")
        #expect(rows["force"]?.value == "false")
        #expect(rows["redis"]?.origin == "MEGATON_REDIS" && rows["retry-failed"] == nil)
        #expect(!shown.output.contains("pass") && !shown.output.contains("word"), "\(shown.output)")
        #expect(shown.errors.contains("MEGATON_WEIGHTS has no effect. Did you mean MEGATON_WEIGHT?"), "\(shown.errors)")
        let all = try await home.run(["config", "show"], environment)
        #expect(all.output.contains("submit attempts") && !all.output.contains("default"), "\(all.output)")
        #expect(!all.output.contains("pass"))
        let wrong = try await home.run(["config", "show", "cache", "purgee"])
        #expect(wrong.code == 64 && wrong.errors.contains("Did you mean cache purge?"), "\(wrong.errors)")
        let several = try await home.run(["config", "show", "cache"])
        #expect(several.code == 64 && several.errors.contains("cache purge"), "\(several.errors)")
    }

    @Test func checkReportsTheFirstFault() async throws {
        let home = try Home("[worker]\nlease = \"long\"\n")
        let fault = try await home.run(["config", "check"])
        #expect(fault.code == 78 && fault.errors.contains("worker.lease must be a number"), "\(fault.errors)")
        let valid = try home.directory.write(Data("redis = \"redis://h\"\n".utf8), to: "valid.toml")
        for line in [["config", "check", valid], ["config", "check", "--config", valid]] {
            let ending = try await home.run(line)
            #expect(ending.code == 0 && ending.output == "\(valid) is valid\n", "\(ending.errors)")
        }
        #expect(try await home.run(["config", "check", "/no/such.toml"]).code == 66)
    }

    /// Fault: the check did not read the files, and the service failed at its start.
    @Test func checkReadsTheFilesThatAFileNames() async throws {
        let home = try Home()
        let path = home.directory.path
        for name in ["credentials", "key"] {
            try home.directory.write(Data("short".utf8), to: name)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: "\(path)/\(name)")
        }
        try home.directory.write(Data(#"{"web": [{"name": "small", "width": 64}]}"#.utf8), to: "presets")
        let file = try home.directory.write(
            Data(
                """
                credentials = "\(path)/credentials"
                presets = "\(path)/presets"
                [worker]
                watermarks = "\(path)/marks"
                [coordinator]
                presets = "\(path)/missing"
                webhook-key = "\(path)/key"
                [submit]
                preset = "wep"

                """.utf8
            ),
            to: "faulty.toml"
        )
        let ending = try await home.run(["config", "check", file])
        #expect(ending.code == 78 && ending.output.isEmpty, "\(ending.output)")
        let lines = ending.errors.split(separator: "\n").map(String.init)
        #expect(lines.count == 5, "each fault once: \(ending.errors)")
        for words in [
            "\(file):credentials \(path)/credentials: ", "\(file):worker.watermarks \(path)/marks: no such directory",
            "\(file):coordinator.presets \(path)/missing cannot be read: ",
            "\(file):coordinator.webhook-key \(path)/key has a key of 5 bytes",
            "\(file):submit.preset \"wep\" is not in \(file):presets \(path)/presets; its presets are web. Did you",
        ] { #expect(lines.contains { $0.hasPrefix("megaton: \(words)") }, "\(words): \(ending.errors)") }
    }

    @Test func checkAcceptsFilesThatCanBeUsed() async throws {
        let home = try Home()
        let path = home.directory.path
        try home.directory.write(Data(String(repeating: "k", count: 32).utf8), to: "key")
        try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "marks/logo.png")
        let toml = "[worker]\nwatermarks = \"\(path)/marks\"\n[coordinator]\nwebhook-key = \"\(path)/key\"\n"
        let file = try home.directory.write(Data(toml.utf8), to: "valid.toml")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(path)/key")
        let ending = try await home.run(["config", "check", file])
        #expect(ending.code == 0 && ending.output == "\(file) is valid\n", "\(ending.errors)")
        let remark = "\(file):coordinator.webhook-key: \(path)/key is readable by others; run chmod 600 on it."
        #expect(ending.errors.contains(remark), "\(ending.errors)")
    }

    @Test func aPasswordThatOthersCanReadIsRemarked() async throws {
        let home = try Home("redis = \"redis://:secret@127.0.0.1:1\"\n")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: home.file)
        let exposed = try await home.run(["status"])
        #expect(exposed.errors.contains("readable by others; run chmod o-r"), "\(exposed.errors)")
        #expect(!exposed.errors.contains("secret"))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: home.file)
        let own = try await home.run(["status"])
        #expect(own.code == 69 && !own.errors.contains("readable by others"), "\(own.errors)")
    }

    /// Fault: `--format png` could not be typed with a quality in the file.
    @Test(arguments: LongTests.sample(["quality = 70", "effort = 6", "lossless = true", "chroma = \"444\""], every: 4))
    func aValueThatTheFormatDoesNotHaveIsNoError(_ line: String) async throws {
        let home = try Home(line + "\n")
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        for format in ["jpeg", "png", "gif", "webp"] {
            let run = try await home.run(["run", "in", "-o", "out", "--dry-run", "--format", format])
            #expect(run.code == 0, "\(format): \(run.errors)")
        }
        let typed = try await home.run(["run", "in", "-o", "out", "--dry-run", "--format", "png", "--quality", "70"])
        #expect(typed.code == 64 && typed.errors.contains("png has no --quality"), "\(typed.errors)")
        let own = try Home("lossless = true\neffort = 8\n")
        let out = ["run", home.directory.path + "/in", "-o", "out", "--dry-run"]
        let mixed = try await own.run(
            out + ["--rendition", "name=a,width=8,format=jpeg", "--rendition", "name=b,width=8,format=gif"]
        )
        #expect(mixed.code == 0, "\(mixed.errors)")
        let range = try await own.run(out + ["--rendition", "name=a,width=8,format=webp"])
        #expect(range.code == 78 && range.errors.contains("effort"), "a webp has efforts: \(range.errors)")
        let invalid = try await Home("quality = 700\n").run(["run", "in", "-o", "out", "--dry-run", "--format", "webp"])
        #expect(invalid.code != 0 && invalid.errors.contains("quality"), "\(invalid.errors)")
    }

    /// A value for many commands is no fault of a command for which it has no effect.
    @Test func defaultsWithoutEffectAreNoErrors() async throws {
        let home = try Home("memory = 900\nledger = \"l.jsonl\"\nreport = true\noutput = \"/tmp/x\"\n")
        let redis = ["--redis", "redis://127.0.0.1:1"]
        for line in [["run", "/tmp", "-o", "/tmp/x"], ["submit", "https://example.org/a.jpg", "--no-output"]] {
            let ending = try await home.run(line + redis)
            #expect(ending.code == 69, "no Redis listens there: \(ending.errors)")
        }
        let typed = try await home.run(["run", "/tmp", "-o", "/tmp/x", "--memory", "900"] + redis)
        #expect(typed.code == 64 && typed.errors.contains("--memory has no effect"), "\(typed.errors)")
    }
}
