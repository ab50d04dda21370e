import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// The most common options of `megaton run`.
@Suite(.timeLimit(.minutes(3))) struct RunOptionTests {
    @Test func shortNamesAndSizesAreUnderstood() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 80, height: 40), to: "in/a b.png")
        let url = "FILE://" + path.replacingOccurrences(of: " ", with: "%20")
        let run = try home.megaton([
            "run", url, "-o", home.output, "-j", "1", "--size", "16", "--size", "32x", "--size", "x10", "--format",
            "jpg",
            "--rendition", "name=c,width=8,height=8,fit=cover,gravity=center", "--rendition",
            "name=s,width=8,height=8,fit=cover,gravity=smart",
        ])
        let ending = await run.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(ending.errors.contains("0 fetches, 5 renders") && ending.output.isEmpty, "\(ending.errors)")
        #expect(home.outputs == ["a b-16x16.jpg", "a b-32x.jpg", "a b-c.jpg", "a b-s.jpg", "a b-x10.jpg"])
        let sizes = try home.ledger().flatMap(\.outputs).map { "\($0.name) \($0.width)x\($0.height)" }.sorted()
        #expect(sizes == ["16x16 16x8", "32x 32x16", "c 8x8", "s 8x8", "x10 20x10"])
    }

    /// Even root can create no file in `/proc`; this directory is empty.
    @Test func anOutputDirectoryThatTakesNoFileEndsARunBeforeItFetches() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "in/a.png")
        let ledger = home.directory.path + "/ledger.jsonl"
        let run = ["run", "in", "-o", "/proc/tty/ldisc", "-j", "1", "--ledger", ledger]
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 74, "\(ending.errors)")
        #expect(ending.errors.contains("to the output directory /proc/tty/ldisc: "), "\(ending.errors)")
        #expect(ending.errors.contains("Nothing was fetched."), "\(ending.errors)")
        #expect(!FileManager.default.fileExists(atPath: ledger))
        // The outputs of a run may be there already, or in subdirectories that take files.
        let remark = try OutputCheck.checkDirectory("/proc") ?? ""
        #expect(remark.hasPrefix("no file can be written to the output directory /proc itself: "), "\(remark)")
        #expect(try OutputCheck.checkDirectory(home.directory.path) == nil)
    }

    private static let unknownOptions: [(arguments: [String], words: String)] = [
        (["run", "-z"], "megaton run has no option -z."), (["run", "x.jpg", "--quite"], "Did you mean --quiet?"),
        (["run", "x.jpg", "--widht", "5"], "Did you mean --size 320x?"),
        (["run", "/no/such", "--workers", "0", "--silent"], "megaton run has no option --silent."),
        (["run", "--size", "big", "--verbos=1", "x"], "Did you mean --verbose?"),
        (["--frist"], "megaton has no option"),
        (
            ["batch", "wait", "b", "--timout", "x"],
            "megaton batch wait has no option --timout. Did you mean --timeout?"
        ),
        (["submit", "-j", "4"], "megaton submit has no option -j."),
        // Options of other tools, whose spelling is nearer to something else.
        (["run", "a.jpg", "--width", "320"], "megaton run has no option --width. Did you mean --size 320x?"),
        (["run", "a.jpg", "--image_size=256"], "has no option --image_size. Did you mean --size 320x240?"),
        (["run", "a.jpg", "--output_folder", "b"], "Did you mean --output PATH?"),
        (["run", "a.jpg", "--threads", "4"], "megaton run has no option --threads. Did you mean --workers N?"),
        (["status", "--width", "3"], "megaton status has no option --width.\n"),
        // Fault: the parser found `-h` in it, and printed the help.
        (["run", "a.jpg", "-thumbnail", "200x200"], "has no option -thumbnail. Did you mean --size 320x240?"),
    ]

    /// Faults: `contain` for a mode that crops, and a crop of the middle for one by content.
    @Test func cropsOfOtherToolsHaveAHint() async throws {
        try await inPairs([
            (["run", "a.jpg", "--resize_mode", "center_crop"], "Did you mean --fit cover, contain or inside?"),
            (["run", "a.jpg", "--smartcrop", "attention"], "Did you mean --fit cover --gravity attention?"),
            (["run", "a.jpg", "--caption-column", "text"], "Did you mean --label-columns NAME?"),
            (["run", "a.jpg", "--output_format", "webp"], "--format webp (and --output tar:DIR for shards)?"),
            (["run", "a.jpg", "--eprofile", "srgb"], "Did you mean --profile srgb?"),
            (["run", "a.jpg", "--size", "256x256>"], "No image is made larger unless --enlarge is given"),
            (["run", "a.jpg", "--size", "256x256^"], "Give --fit outside, or --fit cover to crop as well"),
            (["run", "a.jpg", "--size", "256x256!"], "Give --fit fill"),
            (["run", "a.jpg", "--size", "256x256<"], "Give --enlarge"),
        ]) { (arguments, words) in
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
        }
    }

    @Test func anUnknownOptionIsReportedFirst() async throws {
        try await inPairs(Self.unknownOptions) { (arguments, words) in
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
            #expect(!ending.errors.contains("--fit"), "no option is named that has nothing to do with \(arguments)")
        }
    }

    /// Fault: only "Unexpected argument" was printed.
    private static let unknownCommands: [(arguments: [String], words: String)] = [
        (
            ["photas", "-o", "o1"],
            "megaton has no command \"photas\". Thumbnails are made by: megaton run photas --output"
        ),
        (["version"], "Did you mean --version?"), (["statsu"], "Did you mean status?"),
        (["foo"], "Its commands are run, plan, submit, coordinator,"),
        (["help", "bogus"], "megaton has no command \"bogus\""),
        (["nonsense", "--help"], "megaton has no command \"nonsense\""),
        (["dead", "lits"], "megaton dead has no command \"lits\". Did you mean list?"),
    ]

    @Test func anUnknownCommandIsReportedWithTheKnownOnes() async throws {
        try await inPairs(Self.unknownCommands) { (arguments, words) in
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
        }
    }

    private static let invalidValues: [(arguments: [String], words: String)] = [
        (["batch", "wait", "b", "--timeout=-1"], "of at least 0, not -1"),
        (["queue", "drain", "--timeout", "3"], "--wait"),
        (["submit", "x", "--batch", "a b"], "not \"a b\""), (["status", "--queue", "a/b"], "not \"a/b\""),
    ]

    @Test func aMessageAboutAnOptionHasItsValue() async throws {
        try await inPairs(Self.invalidValues) { (arguments, words) in
            let ending = await (try ProgramUnderTest.megaton(arguments + ["--redis", "redis://127.0.0.1:1"])).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
        }
    }

    private static let contradictions: [(options: [String], words: String)] = [
        (["--rendition", "width=256,width=300"], "width is given twice"), (["--size", "x"], "not \"x\""),
        (["--size", ""], "--size"), (["--size", "1x2x3"], "--size"), (["--size", "0"], "width"),
        (["--log-level", "loud"], "--log-level"), (["--exclude", ""], "--exclude"),
        (["--exclude", "a["], "--exclude 'a[' has a [ without a ]"),
        (["--jobs-from", ""], "--jobs-from"),
        (["--timeout", "0"], "more than 0"), (["--timeout=-1"], "more than 0"), (["--timeout", "-1"], "more than 0"),
        (["--heuristic-lifetime", "-5"], "--heuristic-lifetime must be 0 to"),
        (["--allow-type", "tiff,svg"], "repeat"), (["--allow-source", "ftp://x"], "ftp is never fetched"),
        (["--timeout", "nan"], "more than 0"), (["--memory", "0"], "--memory must be"),
        (["--memory", "1", "-j1"], "--memory 1 is too little for a render: a JPEG of 12 megapixels takes 9 MiB"),
        (["--memory", "63", "-j4"], "63 is too little for 4 workers, which share it"),
        (["--memory", "63", "-j4"], "Give at least 64, or fewer --workers."),
        (["--ledger", "-", "--json"], "standard output"), (["--size", "16", "--size", "16x16"], "share the name"),
    ]

    @Test func contradictoryOptionsAreWrongUsage() async throws {
        try await inPairs(Self.contradictions) { (options, words) in
            let ending = await (try ProgramUnderTest.megaton(["run", "/tmp", "-o", "/tmp/x"] + options)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
        }
    }

    /// Fault: they had no effect without a word, and the errors of the jobs recommended just these options.
    private static let withoutEffectOnACluster: [(options: [String], words: String)] = [
        (["--allow-read", "/tmp"], "--allow-read has no effect with --redis and without --workers"),
        (["--allow-private", "--fetch-timeout", "9"], "--allow-private, --fetch-timeout have no effect with --redis"),
        (["--credentials", "/no/such"], "Start megaton worker with --credentials, or give --workers N"),
        (["--s3-region", "eu-central-1"], "--s3-region has no effect"),
        (["--allow-source", "h"], "--allow-source has"),
        (["--allow-port", "81"], "--allow-port has"), (["--memory", "900"], "--memory has no effect"),
        (["--cache-size", "64", "--workers", "1"], "--cache-size has no effect with --redis: it is the size of the"),
    ]

    @Test func anOptionWithoutEffectOnAClusterIsRefused() async throws {
        try await inPairs(Self.withoutEffectOnACluster) { (options, words) in
            // Pairs run at a time, and one run at a time writes the ledger in an output directory.
            let directory = try TestDirectory()
            let picture = try directory.write(TestImage.quarters(width: 8, height: 8), to: "in/a.png")
            let run = ["run", picture, "-o", directory.path + "/out", "--redis", "redis://127.0.0.1:1"]
            let ending = await (try ProgramUnderTest.megaton(run + options)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
            let cluster = ["MEGATON_REDIS": "redis://127.0.0.1:1"]
            let other = await (try ProgramUnderTest.megaton(run.dropLast(2) + options, environment: cluster)).ending()
            #expect(other.code == 64 && other.errors.contains("no effect with MEGATON_REDIS"), "\(other.errors)")
            // These two decide what the run itself selects and allows.
            let useful = run + ["--allow-type", "tiff", "--allow-root", "/tmp"]
            #expect(await (try ProgramUnderTest.megaton(useful)).ending().code == 69, "no Redis listens there")
        }
    }

    /// Fault: "cannot be created: File exists".
    @Test func anOutputThatIsAFileIsRefusedAsSuch() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        for output in [try home.directory.write(Data(), to: "file"), "/dev/null"] {
            let ending = await (try home.megaton(["run", "in", "-o", output, "-j1"])).ending()
            let words = "the output \(output) is a file, not a directory. Name a directory with --output."
            #expect(ending.code == 74 && ending.errors.contains(words), "\(ending.errors)")
        }
    }

    @Test func aDryRunMakesNothing() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        for name in ["a.png", "b.png", "old/c.png", "d.gif"] { try home.directory.write(image, to: "in/\(name)") }
        let list = try home.directory.write(Data("https://example.org/e\u{1B}.jpg\n{}\n".utf8), to: "list.txt")
        let run = ["run", "in", list, "-o", home.output, "--exclude", "old", "--exclude", "*.gif", "--dry-run"]
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == 2, "a line is refused: \(ending.errors)")
        #expect(ending.errors.contains("3 outputs of 3 jobs") && ending.errors.contains("2 inputs left out"))
        let lines = ending.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 3 && !ending.output.contains("\u{1B}"), "\(lines)")
        #expect(lines[0] == "\(home.directory.path)/in/a.png -> \(home.output)/a-256x256.jpg")
        #expect(!FileManager.default.fileExists(atPath: home.output))
        #expect(!FileManager.default.fileExists(atPath: home.directory.path + "/cache"), "no Redis was started")
    }

    /// Fault: they counted as one output whatever the number of renditions.
    @Test func aDryRunCountsOutputsWhoseNamesAreNotKnownYet() async throws {
        let home = try RunTests.Home()
        let output = "file://\(home.output)/{stem}-{name}-{width}.{ext}"
        let renditions = #"[{"name":"s","width":8},{"name":"l","width":16}]"#
        let lines = [
            #"{"source":"https://example.org/a.png","output":"\#(output)","renditions":\#(renditions)}"#,
            #"{"source":"https://example.org/b.png","output":"\#(output)","preset":"card"}"#,
        ]
        let list = try home.directory.write(Data((lines[0] + "\n").utf8), to: "sizes.jsonl")
        let sizes = await (try home.megaton(["run", list, "-o", home.output, "--dry-run"])).ending()
        #expect(sizes.code == 0 && sizes.errors.contains("megaton: 2 outputs of 1 job "), "\(sizes.errors)")
        #expect(sizes.output.contains("a.png -> file://\(home.output)/{stem}-l-{width}.jpg\n"), "\(sizes.output)")
        let both = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "both.jsonl")
        let presets = await (try home.megaton(["run", both, "-o", home.output, "--dry-run"])).ending()
        #expect(presets.errors.contains("at least 3 outputs of 2 jobs"), "\(presets.errors)")
    }

    /// Fault: the option had no effect, and nothing said so.
    @Test func anOptionThatDoesNotChangeAJobIsReportedOnce() async throws {
        let home = try RunTests.Home()
        let job = #"{"source":"https://example.org/a.png","renditions":[{"width":8}]}"#
        let list = try home.directory.write(Data("\(job)\n\(job)\n".utf8), to: "own.jsonl")
        let ending = await (try home.megaton(["run", list, "-o", home.output, "--size", "9", "--dry-run"])).ending()
        let remark = "own.jsonl, line 1 has renditions or a preset of its own: --size does not change such jobs."
        #expect(ending.code == 0 && ending.errors.contains(remark), "\(ending.errors)")
        #expect(!ending.errors.contains("line 2 has"), "\(ending.errors)")
    }

    /// Fault: each job with a changed output failed as if that were an input, and nothing said why.
    @Test(
        arguments: [
            (["in"], 5_000_000, nil), (["in"], 2, "the inputs are more than 2 files"),
            (["in", "/no/such.txt"], 5_000_000, "could not be read a second time"),
        ] as [([String], Int, String?)]
    )
    func aRunThatDoesNotKnowItsInputsSaysSo(_ inputs: [String], _ limit: Int, _ words: String?) throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 8, height: 8)
        for name in ["in/a.png", "in/b.png", "in/c.png", "out/a.jpg"] { try home.directory.write(image, to: name) }
        let selection = InputSelection(
            arguments: inputs.map { $0.hasPrefix("/") ? $0 : "\(home.directory.path)/\($0)" }
        )
        var guardian = OutputGuard(selection, overwrites: true, roots: nil, files: [], limit: limit)
        var absent = Job(source: "https://example.org/b.png", output: "file://\(home.output)/b.{ext}")
        guardian.admit(&absent, isOwn: false)
        let early = guardian.takeRemark()
        #expect(absent.replace == .all && early == nil, "the inputs are not needed for it")
        var job = Job(source: "https://example.org/a.png", output: "file://\(home.output)/a.{ext}")
        guardian.admit(&job, isOwn: false)
        let expected: Job.Replacement = words == nil ? .all : .nothing
        #expect(job.replace == expected)
        let remarks = [guardian.takeRemark(), guardian.takeRemark()].compactMap { $0 }
        #expect(remarks.count == (words == nil ? 0 : 1), "it is said once")
        #expect(remarks.allSatisfy { $0.contains(words ?? "") }, "\(remarks)")
    }

    @Test func forceRendersAgain() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let arguments = [origin.url("/a.png").absoluteString, "--workers", "1", "--allow-private"]
            #expect(try await home.run(arguments).code == 0)
            let path = "\(home.output)/\(try #require(home.outputs.first))"
            try TestImage.jpeg(width: 8, height: 8).write(to: URL(fileURLWithPath: path))
            let ending = try await home.run(arguments + ["--force"])
            let summary = try home.summary(ending)
            #expect(summary["renders"] as? Int == 1 && summary["cache_hits"] as? Int == 0, "\(ending.errors)")
            #expect(origin.total == 2)
            let thesis = Data("my thesis".utf8)
            try thesis.write(to: URL(fileURLWithPath: path))
            #expect(try await home.run(arguments + ["--force"]).code == 2, "it is no --overwrite")
            #expect(FileManager.default.contents(atPath: path) == thesis)
        }
    }

    /// Each cause has its own line, and a refused address does not count as a fetch.
    @Test func failuresAreGroupedByCause() async throws {
        let home = try RunTests.Home()
        for name in ["a", "b", "c d"] { try home.directory.write(Data("text".utf8), to: "in/\(name).png") }
        let ending = await
            (try home.megaton([
                "run", "in", "http://127.0.0.1/x.png", "http://127.0.0.2/y.png", "-o", home.output, "-j", "1",
                "--log-level", "error",
            ])).ending()
        #expect(ending.code == 2)
        #expect(ending.errors.contains("; 0 fetches, 0 renders"), "\(ending.errors)")
        let rows = ending.errors.split(separator: "\n").filter { $0.hasPrefix("       ") }
        #expect(rows.count { $0.contains("unsupported_format") } == 1, "\(rows)")
        #expect(rows.first?.hasPrefix("       3  unsupported_format") == true, "\(rows)")
        #expect(rows.count { $0.contains("forbidden") } >= 1, "\(rows)")
    }

    /// Fault: images of one format had several rows, as their first bytes differ.
    @Test func imagesOfOneFormatHaveOneCause() {
        var causes = FailureCauses()
        for bytes in ["\"II*\\0\"", "4d 4d 00 2a"] {
            let message = "the bytes are tiff (they begin \(bytes)); these formats are read: gif, jpeg."
            causes.add(.init(code: "unsupported_format", message: message, retryable: false), source: "")
        }
        #expect(causes.rows.count == 1 && causes.rows[0].contains("2  unsupported_format"), "\(causes.rows)")
    }

    /// Fault: messages of workers named options that `submit` does not have.
    @Test func optionsOfWorkersAreCalledSo() {
        let rows = "  1  image_too_large  the limit is 50 megapixels (--max-pixels). Give --fail-on none, --overwrite"
        #expect(
            FailureCauses.workerOptions(in: rows)
                == "--max-pixels is an option of megaton worker: start the workers of the cluster with it."
        )
        let several = FailureCauses.workerOptions(in: rows + " --allow-private")
        #expect(several?.hasPrefix("--allow-private, --max-pixels are options of megaton worker") == true)
        #expect(FailureCauses.workerOptions(in: "  1  not_found  the origin answered 404") == nil)
    }

    @Test func causesAreMessagesWithoutTheirNames() {
        var causes = FailureCauses()
        func add(_ code: String, _ message: String, _ source: String = "") {
            causes.add(.init(code: code, message: message, retryable: false), source: source)
        }
        add("forbidden", "/a/b c.png is not beneath a root (/x).", "file:///a/b%20c.png")
        add("forbidden", "/d.png is not beneath a root (/y).", "file:///d.png")
        add("forbidden", "https://a.example/x: 10.0.0.1 is a private address.", "https://a.example/x")
        add("http_status", "https://a.example/x answered 500.")
        add("http_status", "https://b.example/y answered 503.")
        for index in 0..<1000 { add("other", "cause \(String(repeating: "x", count: index + 1))") }
        let rows = causes.rows
        #expect(rows[0].hasPrefix("       2  forbidden    /a/b c.png is not"), "\(rows)")
        #expect(rows[1] == "       2  http_status  https://a.example/x answered 500.", "\(rows)")
        #expect(rows.count == 21 && rows[20].contains("983 more failures"), "\(rows[20])")
    }
}
