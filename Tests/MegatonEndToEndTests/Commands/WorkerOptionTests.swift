import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// Command-line options that extend a worker's rights, and the log entries about relaxed defaults.
@Suite(.timeLimit(.minutes(3))) struct WorkerOptionTests {
    private static let svg = Data(
        #"<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/></svg>"#.utf8
    )

    @Test func sourcesOutsideOfTheAllowListAreForbidden() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let (inside, outside) = (origin.url("/in/a.png").absoluteString, origin.url("/other/b.png").absoluteString)
            let rule = "127.0.0.1:\(origin.port)/in"
            let ending = try await home.run([
                inside, outside, "--allow-private", "--allow-source", "example.com", "--allow-source", rule,
                "--workers", "1",
            ])
            #expect(ending.code == 2, "\(ending.errors)")
            let ledger = try home.ledger()
            #expect(ledger.first { $0.source == inside }?.status == .done)
            #expect(ledger.first { $0.source == outside }?.error?.code == "forbidden")
            #expect(origin.total == 1, "what is forbidden is not asked for")
        }
    }

    @Test func redirectsOutOfTheAllowListAreForbidden() async throws {
        let home = try RunTests.Home()
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            path == "/in/a.png" ? .init(status: 302, headers: [("Location", "/other/b.png")]) : .init(status: 404)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let ending = try await home.run([
                origin.url("/in/a.png").absoluteString, "--allow-private", "--allow-source",
                "127.0.0.1:\(origin.port)/in", "--workers", "1",
            ])
            #expect(ending.code == 2, "\(ending.errors)")
            #expect(try home.ledger().map { $0.error?.code } == ["forbidden"])
            #expect(origin.count("/other/b.png") == 0)
        }
    }

    /// A memory budget too small for one image: that image is refused, and the others are rendered.
    @Test func memoryIsLimited() async throws {
        let home = try RunTests.Home()
        let large = try home.directory.write(TestImage.quarters(width: 3000, height: 3000), to: "in/large.png")
        try home.directory.write(TestImage.quarters(width: 64, height: 64), to: "in/small.png")
        let folder = (large as NSString).deletingLastPathComponent
        let ending = try await home.run([folder, "--workers", "2", "--memory", "32"])
        #expect(ending.code == 2, "\(ending.errors)")
        let ledger = try home.ledger()
        let refusal = try #require(ledger.first { $0.source.hasSuffix("large.png") }?.error)
        #expect(refusal.code == "too_costly" && refusal.message.contains("--memory"), "\(refusal)")
        #expect(home.outputs == ["small-256x256.jpg"])
        let again = try await home.run([folder, "--workers", "2", "--memory", "64"])
        #expect(again.code == 0, "\(again.errors)")
    }

    /// Fault: a run was refused if its memory was too little for as many workers as there are processors.
    @Test func littleMemoryStartsFewerWorkers() async throws {
        let home = try RunTests.Home()
        let small = try home.directory.write(TestImage.quarters(width: 64, height: 64), to: "in/small.png")
        let ending = try await home.run([small, "--memory", "16"])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(home.outputs == ["small-256x256.jpg"])
        let refused = try await home.run([small, "--memory", "16", "--workers", "2"])
        #expect(refused.code == 64 && refused.errors.contains("Give at least 32"), "\(refused.errors)")
    }

    @Test func svgIsRefusedUnlessItIsSwitchedOn() async throws {
        for isAllowed in [false, true] {
            let home = try RunTests.Home()
            let path = try home.directory.write(Self.svg, to: "in/a.svg")
            let folder = (path as NSString).deletingLastPathComponent
            let options = isAllowed ? ["--allow-type", "svg", "--verbose"] : []
            let ending = try await home.run([isAllowed ? folder : path, "--workers", "1", "--format", "png"] + options)
            let outcome = try #require(try home.ledger().first, "\(ending.errors)")
            #expect(ending.code == (isAllowed ? 0 : 2), "\(ending.errors)")
            #expect(outcome.error?.code == (isAllowed ? nil : "unsupported_format"), "\(outcome)")
            #expect(home.outputs == (isAllowed ? ["a-256x256.png"] : []))
            #expect(
                ending.errors.contains("attack surface is enabled in this process") == isAllowed,
                "\(ending.errors)"
            )
        }
    }

    @Test func credentialsComeOutOfAFileAndStandInNoLog() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            request.headers["authorization"] == "Bearer sesame-8471" ? .image(image) : .init(status: 401)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let url = origin.url("/a.png").absoluteString
            let json = #"{"credentials": [{"sources": ["http://127.0.0.1:*"], "bearer": "sesame-8471"}]}"#
            let file = try home.directory.write(Data(json.utf8), to: "credentials.json")
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
            let ending = try await home.run([
                url, "--allow-private", "--workers", "1", "--credentials", file, "--verbose",
            ])
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(ending.errors.contains("readable by others"), "\(ending.errors)")
            let ledger = try String(contentsOfFile: home.output + "/megaton-ledger.jsonl", encoding: .utf8)
            for text in [ending.errors, ending.output, ledger] { #expect(!text.contains("sesame")) }
            let broken = try home.directory.write(Data(#"{"credentials": [{"bearer": "sesame-8471"}]}"#.utf8), to: "b")
            let refused = try await home.run([url, "--allow-private", "--credentials", broken])
            #expect(refused.code == 64 && refused.errors.contains("sources"), "\(refused.errors)")
            #expect(!refused.errors.contains("sesame"))
        }
    }

    @Test func aJobHasTheCredentialThatItNames() async throws {
        let home = try RunTests.Home()
        let pictures = [
            "Bearer sesame-1": TestImage.quarters(width: 32, height: 32),
            "Bearer sesame-2": TestImage.quarters(width: 64, height: 32),
        ]
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            pictures[request.headers["authorization"] ?? ""].map { .image($0) } ?? .init(status: 401)
        }
        // Without compression, so that the file's content can be searched.
        try await RedisServerProcess.run(.init(settings: ["rdbcompression no"])) { (server) async throws in
            try await OriginServer.run(responding: answer) { (origin) async throws in
                let url = origin.url("/a.png").absoluteString
                let file = try home.directory.write(Data(Self.named.utf8), to: "credentials.json")
                // No job may get a result that was fetched with another job's credential.
                let names = ["one", "two", nil, "three", "elsewhere"]
                let jobs = names.map { Job(id: $0 ?? "none", source: url, credential: $0).json() }
                let lines = try home.directory.write(Data(jobs.joined(separator: Data("\n".utf8))), to: "jobs.jsonl")
                let ending = try await home.run([
                    lines, "--allow-private", "--redis", server.url, "--workers", "1", "--credentials", file,
                    "--verbose",
                ])
                #expect(ending.code == 2, "\(ending.errors)")
                let ledger = Dictionary(uniqueKeysWithValues: try home.ledger().map { ($0.id ?? "", $0) })
                #expect(ledger["one"]?.outputs.map(\.width) == [32] && ledger["two"]?.outputs.map(\.width) == [64])
                #expect(ledger["none"]?.error?.code == "access_denied", "\(ending.errors)")
                for name in ["three", "elsewhere"] {
                    let error = try #require(ledger[name]?.error)
                    #expect(error.code == "no_credential" && !error.retryable && error.message.contains(name))
                    #expect(ledger[name]?.attempts == 1)
                }
                #expect(origin.total == 3, "nothing is asked for without the right to it")
                let written = try String(contentsOfFile: home.output + "/megaton-ledger.jsonl", encoding: .utf8)
                for text in [ending.errors, ending.output, written] { #expect(!text.contains("sesame")) }
                try await expectNo("sesame", in: server)
            }
        }
    }

    @Test func aCredentialCanBeNamedForAllSources() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            request.headers["authorization"] == "Bearer sesame-1" ? .image(image) : .init(status: 401)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let path = try home.directory.write(image, to: "in/b.png")
            let file = try home.directory.write(Data(Self.named.utf8), to: "credentials.json")
            let arguments = [origin.url("/a.png").absoluteString, path, "--allow-private", "--workers", "1"]
            let ending = try await home.run(arguments + ["--credentials", file, "--credential", "one"])
            #expect(ending.code == 0, "a file needs none: \(ending.errors)")
            // Each worker reads the file, but the bytes of a pipe can be read only once.
            let pipe = home.directory.path + "/pipe"
            #expect(mkfifo(pipe, 0o600) == 0)
            let refused = try await home.run(arguments + ["--credentials", pipe])
            #expect(refused.code == 64 && refused.errors.contains("not a regular file"), "\(refused.errors)")
        }
    }

    private static let named = """
        {"credentials": [
          {"name": "one", "sources": ["http://127.0.0.1:*"], "bearer": "sesame-1"},
          {"name": "two", "sources": ["http://127.0.0.1:*"], "bearer": "sesame-2"},
          {"name": "elsewhere", "sources": ["example.com"], "bearer": "sesame-3"}]}
        """

    /// Searches all keys and all values.
    private func expectNo(_ secret: String, in server: RedisServerProcess) async throws {
        let client = server.client()
        defer { client.close() }
        let keys = try await client.send(["KEYS", "*"]).array ?? []
        #expect(!keys.isEmpty)
        for key in keys.compactMap(\.string) {
            #expect(!key.contains(secret))
            let value = try await client.send(["DUMP", .string(key)])
            #expect(value.string?.contains(secret) != true, "\(key)")
        }
    }

    /// An object store on a private address is reachable through its object URLs only.
    @Test func objectsOfACustomStoreAreSources() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        let start = "AWS4-HMAC-SHA256 Credential=key/"
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            let shown = request.headers["authorization"] ?? ""
            return shown.hasPrefix(start) && shown.contains("/eu-west-1/s3/") ? .image(image) : .init(status: 403)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let json = #"{"credentials": [{"sources": ["s3://originals"], "s3": {"id": "key", "secret": "sesame-1"}}]}"#
            let file = try home.directory.write(Data(json.utf8), to: "credentials.json")
            let (inside, outside) = ("s3://originals/in/a%20b.png", "s3://others/a.png")
            let ending = try await home.run([
                inside, outside, origin.url("/originals/b.png").absoluteString, "--workers", "1", "--credentials", file,
                "--s3-endpoint", origin.url("").absoluteString, "--s3-region", "eu-west-1", "--verbose",
            ])
            #expect(ending.code == 2, "\(ending.errors)")
            let ledger = Dictionary(uniqueKeysWithValues: try home.ledger().map { ($0.source, $0) })
            #expect(ledger[inside]?.status == .done && origin.count("/originals/in/a%20b.png") == 1)
            #expect(ledger[outside]?.error?.code == "access_denied")
            #expect(ledger[origin.url("/originals/b.png").absoluteString]?.error?.code == "forbidden")
            #expect(origin.count("/originals/b.png") == 0 && !ending.errors.contains("sesame"))
            #expect(ending.errors.contains("from any address of the endpoint"), "\(ending.errors)")
        }
    }

    @Test func securityRelaxationsAreLoggedAtTheStart() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let worker = try await cluster.start(workers: [["--allow-port", "8080", "--allow-type", "tiff"]])[0]
            #expect(worker.errors.contains("private and link-local addresses are fetched"), "\(worker.errors)")
            #expect(worker.errors.contains("8080"), "\(worker.errors)")
            #expect(worker.errors.contains("tiff"), "\(worker.errors)")
        }
    }

    @Test func renditionsHaveTheOptionsOfTheCommandLine() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 100, height: 50), to: "in/a.png")
        let ending = try await home.run([
            path, "--workers", "1", "--format", "gif", "--fit", "cover", "--gravity", "west", "--effort", "3", "--dpr",
            "2", "--size", "20x20", "--rendition",
            "name=big,width=300,height=300,format=webp,fit=inside,gravity=centre,enlarge=true,lossless=true,dpr=1",
        ])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(home.outputs == ["a-20x20.gif", "a-big.webp"])
        let gif = try #require(FileManager.default.contents(atPath: home.output + "/a-20x20.gif"))
        #expect(gif.prefix(4) == Data("GIF8".utf8))
        let outputs = try #require(try home.ledger().first?.outputs)
        let sizes = Dictionary(uniqueKeysWithValues: outputs.map { ($0.name, [$0.width, $0.height]) })
        #expect(sizes == ["20x20": [40, 40], "big": [300, 150]])
    }

    @Test func theEngineCanBeChosen() async throws {
        let home = try RunTests.Home()
        let png = try home.directory.write(TestImage.quarters(width: 300, height: 200), to: "in/a.png")
        #expect(try await home.run([png, "--workers", "1", "--size", "300x200", "--quality", "95"]).code == 0)
        let path = home.output + "/a-300x200.jpg"
        var made: [String: Data] = [:]
        for engine in ["auto", "planes", "vips"] {
            let name = "name=\(engine),width=40"
            let ending = try await home.run([path, "--workers", "1", "--engine", engine, "--rendition", name])
            #expect(ending.code == 0, "\(ending.errors)")
            made[engine] = FileManager.default.contents(atPath: home.output + "/a-300x200-\(engine).jpg")
        }
        #expect(made["auto"] != nil && made["auto"] == made["planes"] && made["vips"] != nil)
        #expect(made["vips"] != made["auto"], "the cache keeps them apart")
        let ending = try await home.run([png, "--workers", "1", "--engine", "planes", "--size", "9x9"])
        #expect(ending.code == 2)
        #expect(try home.ledger().last?.error?.message.contains("planes engine") == true)
    }

    private static let impossibleOptions: [(options: [String], word: String)] = [
        (["--fit", "round"], "inside"), (["--gravity", "north"], "fit cover"), (["--gravity", "up"], "--gravity"),
        (["--focus", "1"], "--focus"), (["--fit", "cover", "--focus", "2,0.5"], "0 to 1"), (["--dpr", "9"], "dpr"),
        (["--engine", "magick"], "auto, vips or planes"), (["--quality-profile", "best"], "balanced"),
        (["--lossless"], "lossless"), (["--animated"], "animated"), (["--effort", "3"], "no effort"),
        (["--format", "webp", "--effort", "7"], "0 to 6"), (["--format", "avif", "--progressive"], "progressive"),
        (["--format", "gif", "--keep-metadata", "copyright"], "no metadata"), (["--profile", "mine"], "--profile"),
        (["--rendition", "width=1,enlarge=perhaps"], "true or false"), (["--format", "jxl"], "--allow-type jxl"),
        (["--allow-type", "pdf"], "--allow-type"), (["--allow-source", "gopher://example.com"], "--allow-source"),
        (["--credentials", "/no/such"], "/no/such"), (["--s3-endpoint", "ftp://a.example"], "--s3-endpoint"),
        (["--s3-endpoint", "https://user:pw@a.example"], "--s3-endpoint"), (["--credential", "a b"], "--credential"),
        (["--s3-endpoint", "minio:9000"], "\"minio:9000\" must begin with https:// or http://"),
    ]

    @Test func impossibleOptionsAreWrongUsage() async throws {
        try await inPairs(Self.impossibleOptions) { (options, word) in
            let home = try RunTests.Home()
            let ending = await (try home.megaton(["run", "/tmp", "--output", home.output] + options)).ending()
            #expect(ending.code == 64, "\(options): \(ending.errors)")
            #expect(ending.errors.contains(word), "\(options): \(ending.errors)")
            #expect(!FileManager.default.fileExists(atPath: home.output), "\(options)")
        }
    }

    // Fault: leases expired while their jobs ran.
    @Test(arguments: [("6", "6"), ("6", "2.1"), ("1", "0.5")])
    func aRenewIntervalThatCannotWorkIsWrongUsage(lease: String, interval: String) async throws {
        let arguments = ["worker", "--redis", "redis://127.0.0.1:1", "--lease", lease, "--renew-interval", interval]
        let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
        #expect(ending.code == 64, "\(ending.errors)")
        #expect(ending.errors.contains("a third of --lease"), "\(ending.errors)")
    }
}
