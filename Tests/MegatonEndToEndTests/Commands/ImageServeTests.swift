import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

/// Images by signed URLs of `megaton serve`, from an origin and from the cache of workers.
@Suite(.timeLimit(.minutes(3))) struct ImageServeTests {
    /// Hex digits of a key, and those of the salt `hello`.
    private static let secrets = ["MEGATON_KEY": "736563726574", "MEGATON_SALT": "68656c6c6f"]
    private static let headers = [("Cache-Control", "max-age=600"), ("ETag", "\"1\"")]

    /// A running server.
    private struct Server {
        let process: ProgramUnderTest
        let port: Int
        let directory: TestDirectory

        init(_ arguments: [String], _ secrets: [String: String] = ImageServeTests.secrets) async throws {
            directory = try TestDirectory()
            process = try ProgramUnderTest.megaton(
                ["serve", "--listen", "127.0.0.1:0", "--open"] + arguments,
                environment: secrets
            )
            try await process.waitForErrors { $0.contains("serving HTTP") }
            let match = try #require(process.errors.firstMatch(of: /address=127\.0\.0\.1:(\d+) .*serving HTTP/))
            port = try #require(Int(match.output.1))
            // Each question takes a process, so this is no busy loop; the suite's time limit bounds it.
            while try await status(of: "/ready") != 200 { try Task.checkCancellation() }
        }

        func status(of path: String) async throws -> Int {
            let arguments = ["--silent", "--max-time", "30", "--output", "/dev/null", "--write-out", "%{http_code}"]
            let curl = try ProgramUnderTest(
                program: "/usr/bin/curl",
                arguments: arguments + ["http://127.0.0.1:\(port)\(path)"]
            )
            return Int(await curl.ending().output) ?? 0
        }

        /// Asks for an image, until the server has connected its limits of hosts.
        ///
        /// - Returns: the head of the response, and the file with its body.
        func ask(_ path: String, _ options: [String] = []) async throws -> (head: String, file: String) {
            let file = "\(directory.path)/\(UUID().uuidString)"
            let arguments = ["--silent", "--max-time", "30", "--path-as-is", "--dump-header", "-", "--output", file]
            while true {
                try Task.checkCancellation()
                let curl = try ProgramUnderTest(
                    program: "/usr/bin/curl",
                    arguments: arguments + options + ["http://127.0.0.1:\(port)/image/\(path)"]
                )
                let head = await curl.ending().output
                if !head.hasPrefix("HTTP/1.1 503") { return (head, file) }
            }
        }

        /// The body of a refusal, as soon as the server has connected its limits of hosts.
        func refusal(of path: String) async throws -> String {
            while true {
                try Task.checkCancellation()
                let curl = try ProgramUnderTest(
                    program: "/usr/bin/curl",
                    arguments: [
                        "--silent", "--max-time", "30", "--path-as-is", "http://127.0.0.1:\(port)/image/\(path)",
                    ]
                )
                let body = await curl.ending().output
                if !body.contains("not connected to Redis yet") { return body }
            }
        }

        /// Asks for one image many times at once, and returns the number of responses with each status.
        func askAtOnce(_ path: String, count: Int) async throws -> [String: Int] {
            let entry = "url = \"http://127.0.0.1:\(port)/image/\(path)\"\noutput = \"/dev/null\"\n"
            let list = try directory.write(Data(String(repeating: entry, count: count).utf8), to: "list")
            let arguments = ["--silent", "--max-time", "60", "--parallel", "--parallel-immediate", "--parallel-max"]
            let curl = try ProgramUnderTest(
                program: "/usr/bin/curl",
                arguments: arguments + ["\(count)", "--write-out", "%{http_code}\n", "--config", list]
            )
            let statuses = await curl.ending().output.split(separator: "\n").map(String.init)
            return statuses.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }

        func end() async {
            process.send(SIGTERM)
            let ending = await process.ending()
            #expect(ending.code == 0, "\(ending.errors)")
        }
    }

    /// The path with its signature, as another program computes it.
    private static func signed(_ path: String) async throws -> String {
        let script = """
            printf 'hello%s' "$1" | openssl dgst -sha256 -mac HMAC -macopt hexkey:736563726574 -binary | base64 -w 0 \
            | tr '+/' '-_' | tr -d '='
            """
        let program = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script, "sign", "/\(path)"])
        let signature = await program.ending().output
        try #require(signature.count == 43, "\(signature)")
        return "\(signature)/\(path)"
    }

    /// The processes that make images for a server.
    private struct Cluster {
        private let processes: [ProgramUnderTest]

        /// - Parameter arguments: further ones of the worker.
        init(of redis: RedisServerProcess, _ arguments: [String] = []) throws {
            processes = [
                try ProgramUnderTest.megaton(["coordinator", "--redis", redis.url]),
                try ProgramUnderTest.megaton(["worker", "--allow-private", "--redis", redis.url] + arguments),
            ]
        }

        func end() async {
            for process in processes { process.send(SIGTERM) }
            for process in processes { _ = await process.ending() }
        }
    }

    private static func path(_ options: String, _ origin: OriginServer, _ name: String) -> String {
        "\(options)/plain/\(origin.url(name).absoluteString)"
    }

    private static func field(_ name: String, of head: String) -> String? {
        let line = head.components(separatedBy: "\r\n").first { $0.lowercased().hasPrefix(name.lowercased() + ":") }
        return line.map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
    }

    private func run(
        _ arguments: [String] = [],
        access: [String] = ["--allow-private"],
        _ body: (Server, OriginServer, RedisServerProcess) async throws -> Void
    ) async throws {
        let image = TestImage.quarters(width: 256, height: 128)
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            if path == "/brief.png" {
                return .image(image, headers: [("Cache-Control", "max-age=0, stale-if-error=600")])
            }
            if path == "/private.png" { return .image(image, headers: [("Cache-Control", "no-store")]) }
            if path == "/text.jpg" { return .image(Data("no image".utf8), headers: Self.headers) }
            return path == "/none.jpg" ? .init(status: 404) : .image(image, headers: Self.headers)
        }
        try await OriginServer.run(answer: answer) { origin in
            try await RedisServerProcess.run { (redis) async throws in
                let server = try await Server(["--redis", redis.url] + access + arguments)
                try await body(server, origin, redis)
                await server.end()
            }
        }
    }

    // MARK: - Tests

    @Test func aSignedURLIsAnImage() async throws {
        try await run { (server, origin, _) async throws in
            let path = try await Self.signed(Self.path("rs:fit:64:64", origin, "/a.png"))
            let (head, file) = try await server.ask(path)
            #expect(head.hasPrefix("HTTP/1.1 200") && Self.field("Content-Type", of: head) == "image/jpeg", "\(head)")
            #expect(Self.field("Vary", of: head) == "Accept")
            #expect(AssetType(try Data(contentsOf: URL(fileURLWithPath: file))) == .jpeg)
            let pixels = try OutputPixels(contentsOf: file)
            #expect(pixels.width == 64 && pixels.height == 32)
            // The lifetime is that of the origin's response, as far as it is left.
            let control = try #require(Self.field("Cache-Control", of: head))
            let age = try #require(control.firstMatch(of: /max-age=(\d+)/).flatMap { Int($0.output.1) })
            #expect((500...600).contains(age), "\(control)")

            let tag = try #require(Self.field("ETag", of: head))
            let known = try await server.ask(path, ["--header", "If-None-Match: \(tag)"])
            #expect(known.head.hasPrefix("HTTP/1.1 304"), "\(known.head)")
            let bare = try await server.ask(path, ["--head"])
            let size = try Data(contentsOf: URL(fileURLWithPath: file)).count
            #expect(Self.field("Content-Length", of: bare.head) == "\(size)", "\(bare.head)")
            let part = try await server.ask(path, ["--header", "Range: bytes=0-2"])
            #expect(part.head.hasPrefix("HTTP/1.1 206"), "\(part.head)")
            #expect(try Data(contentsOf: URL(fileURLWithPath: part.file)) == Data([0xFF, 0xD8, 0xFF]))
            let webp = try await server.ask(path, ["--header", "Accept: image/webp"])
            #expect(Self.field("Content-Type", of: webp.head) == "image/webp", "\(webp.head)")

            let altered = path.replacingOccurrences(of: "64:64", with: "65:65")
            #expect(try await server.ask(altered).head.hasPrefix("HTTP/1.1 403"))
            #expect(origin.count("/a.png") <= 2, "once for each format at most")
        }
    }

    /// The client `imgproxy` of PyPI, with the resizing type that it has by default.
    @Test func aClientLibraryOfPythonGetsImages() async throws {
        try await run { (server, origin, _) async throws in
            let script = """
                import sys
                from imgproxy import ImgProxy
                new = ImgProxy.factory(key=sys.argv[1], salt=sys.argv[2])
                print(new(sys.argv[3], width=64, height=32, extension="png"))
                print(new(sys.argv[3], "q:50", width=32, height=64, gravity="we"))
                """
            let secrets = [try #require(Self.secrets["MEGATON_KEY"]), try #require(Self.secrets["MEGATON_SALT"])]
            let program = try ProgramUnderTest(
                program: Repository.root + "/.build/venv/bin/python",
                arguments: ["-c", script] + secrets + [origin.url("/a.png").absoluteString]
            )
            let ending = await program.ending()
            try #require(ending.code == 0, "\(ending.errors)")
            let paths = ending.output.split(separator: "\n").map { String($0.dropFirst()) }
            try #require(paths.count == 2 && paths.allSatisfy { $0.contains("rs:auto:") }, "\(paths)")
            // The source is wide: it covers a wide size, and fits into a high one.
            for (path, type, height) in [(paths[0], "image/png", 32), (paths[1], "image/jpeg", 16)] {
                let (head, file) = try await server.ask(path)
                #expect(head.hasPrefix("HTTP/1.1 200") && Self.field("Content-Type", of: head) == type, "\(head)")
                let pixels = try OutputPixels(contentsOf: file)
                #expect(pixels.width == height * 2 && pixels.height == height, "\(path)")
            }
        }
    }

    @Test func manyRequestsFetchOnce() async throws {
        try await run { (server, origin, _) async throws in
            // The server is connected after this one.
            _ = try await server.ask(try await Self.signed(Self.path("rs:fit:8:8", origin, "/other.png")))
            origin.hold()
            let path = try await Self.signed(Self.path("rs:fit:64:64", origin, "/cold.png"))
            // More than the default of --image-limit: they count once.
            async let statuses = server.askAtOnce(path, count: 300)
            await origin.waitForRequests("/cold.png", count: 1)
            origin.release()
            let found = try await statuses
            #expect(found == ["200": 300])
            #expect(origin.count("/cold.png") == 1)
        }
    }

    @Test func aRenditionOfAWorkerNeedsNoFetch() async throws {
        try await run { (server, origin, redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let cluster = try Cluster(of: redis)
            let url = origin.url("/warm.png").absoluteString
            let renditions = #"[{"name":"small","width":64,"height":64,"fit":"inside","format":"jpeg"}]"#
            let job = #"{"id":"a","source":"\#(url)","renditions":\#(renditions)}"#
            try await client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
            try await redis.wait(forChangesOf: ["megaton:{default}:2:stat"]) { client in
                try await client.send(["HGET", "megaton:{default}:2:stat", "done"]).int == 1
            }
            #expect(origin.count("/warm.png") == 1)
            let answer = try await server.ask(try await Self.signed(Self.path("rs:fit:64:64", origin, "/warm.png")))
            #expect(answer.head.hasPrefix("HTTP/1.1 200"), "\(answer.head)")
            #expect(origin.count("/warm.png") == 1)
            await cluster.end()
        }
    }

    @Test func workersMakeWhatTheCacheLacks() async throws {
        // The server itself may not load from the origin.
        try await run(["--render", "cluster"], access: []) { (server, origin, redis) async throws in
            let cold = try await Self.signed(Self.path("rs:fit:64:64", origin, "/cold.png"))
            #expect(try await server.refusal(of: cold).contains("No worker is signed on"))
            let cluster = try Cluster(of: redis)
            let (head, file) = try await server.ask(cold)
            #expect(head.hasPrefix("HTTP/1.1 200") && Self.field("Content-Type", of: head) == "image/jpeg", "\(head)")
            let pixels = try OutputPixels(contentsOf: file)
            #expect(pixels.width == 64 && pixels.height == 32)
            #expect(origin.count("/cold.png") == 1)

            origin.hold()
            let crowd = try await Self.signed(Self.path("rs:fit:64:64", origin, "/crowd.png"))
            async let statuses = server.askAtOnce(crowd, count: 20)
            await origin.waitForRequests("/crowd.png", count: 1)
            origin.release()
            let found = try await statuses
            #expect(found == ["200": 20])
            #expect(origin.count("/crowd.png") == 1)

            for (name, status) in [("/none.jpg", 404), ("/text.jpg", 422)] {
                let answer = try await server.ask(try await Self.signed(Self.path("rs:fit:64:64", origin, name)))
                #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(name): \(answer.head)")
            }
            await cluster.end()
            // An image that the cache has needs no worker.
            #expect(try await server.ask(cold).head.hasPrefix("HTTP/1.1 200"))
        }
    }

    /// Fault: images were refused for as long as a queue was paused, although the cache had them.
    @Test func aStaleImageIsServedWhileNoWorkerMakesItAnew() async throws {
        try await run(["--render", "cluster"], access: []) { (server, origin, redis) async throws in
            let cluster = try Cluster(of: redis)
            let path = try await Self.signed(Self.path("rs:fit:64:64", origin, "/brief.png"))
            #expect(try await server.ask(path).head.hasPrefix("HTTP/1.1 200"))
            let pause = try ProgramUnderTest.megaton(["queue", "pause", "--redis", redis.url])
            #expect(await pause.ending().code == 0)
            #expect(try await server.ask(path).head.hasPrefix("HTTP/1.1 200"))
            let other = try await Self.signed(Self.path("rs:fit:32:32", origin, "/brief.png"))
            #expect(try await server.refusal(of: other).contains("is paused"))
            await cluster.end()
        }
    }

    @Test func anImageThatTheCacheDoesNotKeepIsMadeInTheServer() async throws {
        try await run(["--render", "cluster"]) { (server, origin, redis) async throws in
            let cluster = try Cluster(of: redis)
            let path = try await Self.signed(Self.path("rs:fit:64:64", origin, "/private.png"))
            let answer = try await server.ask(path)
            #expect(answer.head.hasPrefix("HTTP/1.1 200"), "\(answer.head)")
            #expect(Self.field("Cache-Control", of: answer.head) == "no-store", "\(answer.head)")
            #expect(origin.count("/private.png") == 2, "once by the worker and once by the server")
            await cluster.end()
        }
    }

    @Test func failuresHaveTheirStatus() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let presets = try directory.write(Data("small=rs:fit:32:32\n".utf8), to: "presets")
        let arguments = ["--image-presets", presets, "--allowed-sizes", "32,64"]
        try await run(arguments) { (server, origin, _) async throws in
            for (options, name, status) in [
                ("pr:small", "/a.png", 200), ("rs:fit:64:64", "/none.jpg", 404), ("rs:fit:64:64", "/text.jpg", 422),
                ("rs:fit:65:65", "/a.png", 400), ("pr:large", "/a.png", 400),
            ] {
                let answer = try await server.ask(try await Self.signed(Self.path(options, origin, name)))
                #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(options) \(name): \(answer.head)")
                guard status != 200 else { continue }
                #expect(Self.field("Content-Type", of: answer.head) == "application/problem+json")
            }
            let closed = try await server.ask(try await Self.signed("rs:fit:64:64/plain/http://127.0.0.1:1/a.png"))
            #expect(closed.head.hasPrefix("HTTP/1.1 502 "), "\(closed.head)")
        }
    }

    /// Fault: no option named the image of `wm`, so that each URL with it was refused.
    @Test(arguments: ["local", "cluster"]) func aWatermarkIsThatOfTheOperator(_ place: String) async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let mark = TestImage.png(width: 16, height: 16) { _, _ in (0, 0, 0, 255) }
        let marks = ["--watermarks", directory.path]
        _ = try directory.write(mark, to: "black.png")
        let arguments = ["--render", place, "--image-watermark", "black.png"] + marks
        try await run(arguments) { (server, origin, redis) async throws in
            let cluster = try Cluster(of: redis, marks)
            let path = try await Self.signed(Self.path("rs:fit:64:64/f:png/wm:1:soea:8:4", origin, "/a.png"))
            let (head, file) = try await server.ask(path)
            #expect(head.hasPrefix("HTTP/1.1 200"), "\(head)")
            let pixels = try OutputPixels(contentsOf: file)
            // Of 64 x 32 pixels, 16 x 16 at 8 from the right and 4 from the lower edge.
            for (x, y, isBlack) in [(40, 12, true), (55, 27, true), (39, 12, false), (40, 11, false), (56, 27, false)] {
                #expect((pixels.color(x, y) == [0, 0, 0]) == isBlack, "\(x) \(y)")
            }
            #expect(origin.count("/a.png") == 1)
            await cluster.end()
        }
    }

    @Test func aServerWithoutKeysHasNoRoute() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url], [:])
            #expect(try await server.status(of: "/image/unsafe/w:1/plain/http://127.0.0.1:1/a.png") == 404)
            await server.end()
        }
    }

    @Test(
        arguments: [
            (["--unsigned-images", "--listen", "0.0.0.0:0", "--tokens", "a"], [:], "--unsigned-images lets"),
            (["--open", "--unsigned-images"], secrets, "--unsigned-images"),
            (["--open"], ["MEGATON_KEY": "736563726574"], "salt"), (["--open"], ["MEGATON_SALT": "6g"], "hex"),
            (["--open", "--image-rate", "5"], [:], "--image-rate has an effect on images only"),
            (["--open", "--presets-only"], secrets, "--image-presets FILE"),
            (["--open", "--allowed-sizes", "0"], secrets, "--allowed-sizes must"),
            (["--open", "--trusted-proxy", "10.0.0.1/8"], secrets, "--trusted-proxy must"),
            (["--open", "--fallback-image", "/no/such.png"], secrets, "--fallback-image /no/such.png"),
            (["--open", "--image-watermark", "a.png"], secrets, "give --watermarks DIR"),
            (["--open", "--watermarks", "/tmp"], secrets, "give --image-watermark NAME"),
            (["--open", "--watermarks", "/no/such", "--image-watermark", "a.png"], secrets, "no such directory"),
            (["--open", "--watermarks", "/tmp"], [:], "--watermarks has an effect on images only"),
            (["--open", "--render", "elsewhere"], secrets, "--render must be local or cluster"),
            (["--open", "--render", "cluster"], [:], "--render has an effect on images only"),
        ] as [([String], [String: String], String)]
    )
    func otherOptionsAreRefused(_ arguments: [String], _ secrets: [String: String], _ words: String) async throws {
        let process = try ProgramUnderTest.megaton(
            ["serve", "--redis", "redis://127.0.0.1:1"] + arguments,
            environment: secrets
        )
        let ending = await process.ending()
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
        #expect(!ending.errors.contains("736563726574"))
    }
}
