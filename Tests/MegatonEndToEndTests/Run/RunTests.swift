import Foundation
import MegatonCluster
import MegatonTestSupport
import NIOCore
import Testing

/// `megaton run` as a user calls it: the built program, with its own Redis and its own workers.
@Suite(.timeLimit(.minutes(3))) struct RunTests {
    /// Directories of one user: inputs, outputs and a cache directory.
    struct Home {
        let directory: TestDirectory
        var output: String { directory.path + "/out" }
        var environment: [String: String] { ["XDG_CACHE_HOME": directory.path + "/cache"] }

        init() throws { directory = try TestDirectory() }

        func megaton(_ arguments: [String]) throws -> ProgramUnderTest {
            try .megaton(arguments, environment: environment, directory: directory.path)
        }

        /// Runs to its end.
        func run(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
            await (try megaton(["run"] + arguments + ["--output", output, "--json"])).ending()
        }

        func summary(_ ending: ProgramUnderTest.Ending) throws -> [String: Any] {
            let json = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
            return try #require(json, "\(ending.errors)")
        }

        func ledger() throws -> [JobOutcome] {
            let text = try String(contentsOfFile: output + "/megaton-ledger.jsonl", encoding: .utf8)
            return try text.split(separator: "\n").map {
                try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8))
            }
        }

        /// The output images, without the ledger.
        var outputs: [String] {
            let all = FileManager.default.enumerator(atPath: output)?.compactMap { $0 as? String } ?? []
            return all.filter { name in
                var isDirectory: ObjCBool = false
                let isThere = FileManager.default.fileExists(atPath: "\(output)/\(name)", isDirectory: &isDirectory)
                return isThere && !isDirectory.boolValue && !name.hasSuffix(".jsonl") && !name.hasSuffix(".earlier")
            }.sorted()
        }
    }

    /// Lists are untrusted: a source that a run refused is refused by its retry, whatever else failed.
    @Test func aRepetitionOpensNothingThatWasClosed() async throws {
        let (home, outside) = (try Home(), try TestDirectory())
        let closed = try outside.write(TestImage.quarters(width: 64, height: 64), to: "closed.png")
        let lines = [closed, "\(outside.path)/missing.png", "file://host\(outside.path)/no-url.png", "in/missing.png"]
        try home.directory.write(Data(), to: "in/here.txt")
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
        let first = try await home.run([list, "--workers", "1"])
        #expect(first.code == 2, "\(first.errors)")
        let codes = try home.ledger().map { $0.error?.code ?? "" }.sorted()
        #expect(codes == ["forbidden", "forbidden", "invalid_url", "not_found"], "errors do not reveal files outside")
        for message in try home.ledger().compactMap(\.error).filter({ $0.code == "forbidden" }).map(\.message) {
            #expect(
                message.contains("; give its directory with --allow-read.") && !message.contains("--allow-root"),
                "\(message)"
            )
        }
        let again = try home.megaton([
            "run", "--retry-failed", "\(home.output)/megaton-ledger.jsonl", "--workers", "1", "--ledger", "again.jsonl",
        ])
        let ending = await again.ending()
        #expect(ending.code == 2, "\(ending.errors)")
        let text = try String(contentsOfFile: home.directory.path + "/again.jsonl", encoding: .utf8)
        #expect(text.split(separator: "\n").count == 4 && !text.contains(#""status":"done""#), "\(text)")
        #expect(home.outputs.isEmpty)
    }

    @Test func aTreeKeepsItsShapeAndASecondRunMakesNothing() async throws {
        let home = try Home()
        for (index, name) in ["beach.png", "holiday/beach.png", "holiday/a b.png", "holiday/{x}.png"].enumerated() {
            try home.directory.write(TestImage.quarters(width: 400, height: 200, seed: UInt8(index)), to: "in/\(name)")
        }
        try home.directory.write(Data("no image".utf8), to: "in/notes.txt")
        let first = await (try home.megaton(["run", "in", "--output", home.output, "--json"])).ending()
        #expect(first.code == 0, "\(first.errors)")
        let summary = try home.summary(first)
        #expect(summary["done"] as? Int == 4 && summary["renders"] as? Int == 4)
        #expect(first.errors.contains("1 file in the directories was left out"))
        #expect(
            home.outputs == [
                "beach-256x256.jpg", "holiday/a b-256x256.jpg", "holiday/beach-256x256.jpg", "holiday/{x}-256x256.jpg",
            ]
        )
        let ledger = try home.ledger()
        #expect(ledger.count == 4)
        #expect(ledger.allSatisfy { $0.status == .done && $0.outputs[0].width == 256 && $0.outputs[0].height == 128 })
        let second = try home.summary(try await home.run(["in"]))
        #expect(second["done"] as? Int == 4 && second["renders"] as? Int == 0 && second["cache_hits"] as? Int == 4)
    }

    @Test func sourcesThatAreNamedOftenAreFetchedAndRenderedOnce() async throws {
        let home = try Home()
        let images = (0..<10).map { TestImage.quarters(width: 300, height: 300, seed: UInt8($0 * 20)) }
        try await OriginServer.run(
            delay: .milliseconds(300),
            answer: { path in .image(images[Int(path.dropFirst().prefix(1)) ?? 0]) }
        ) { (origin) async throws in
            let urls = (0..<500).map { origin.url("/\($0 % 10).png").absoluteString }
            let list = try home.directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            let arguments = [list, "--workers", "4", "--allow-private"]
            let cold = try home.summary(try await home.run(arguments))
            #expect(origin.total == 10)
            #expect(cold["done"] as? Int == 500 && cold["renders"] as? Int == 10)
            #expect(cold["origin_fetches"] as? Int == 10 && cold["cache_hits"] as? Int == 490)
            #expect(try home.ledger().count == 500)
            let warm = try home.summary(try await home.run(arguments))
            #expect(origin.total == 10)
            #expect(warm["done"] as? Int == 500 && warm["renders"] as? Int == 0)
            #expect(home.outputs.count == 10)
        }
    }

    @Test func failuresAreReportedAndTheRestIsDone() async throws {
        let home = try Home()
        for index in 0..<20 {
            try home.directory.write(
                TestImage.quarters(width: 64, height: 64, seed: UInt8(index)),
                to: "in/good\(index).png"
            )
        }
        let image = TestImage.quarters(width: 500, height: 500)
        try home.directory.write(Data(), to: "in/empty.jpg")
        try home.directory.write(image.prefix(image.count / 2), to: "in/truncated.png")
        try home.directory.write(Data("<!DOCTYPE html><title>no</title>".utf8), to: "in/page.jpg")
        try home.directory.write(TestImage.bomb(width: 30_000, height: 30_000), to: "in/bomb.png")
        try await OriginServer.run(answer: { _ in .init(status: 404) }) { (origin) async throws in
            let closed = try FreePort.find()
            let ending = try await home.run([
                home.directory.path + "/in", origin.url("/missing.jpg").absoluteString,
                "http://127.0.0.1:\(closed)/a.jpg", "--allow-private", "--attempts", "2",
            ])
            #expect(ending.code == 2)
            let summary = try home.summary(ending)
            #expect(summary["done"] as? Int == 20 && summary["failed"] as? Int == 6)
            let errors = try home.ledger().compactMap(\.error)
            let codes = ["not_found", "unreachable", "empty", "corrupt_image", "unsupported_format", "side_too_long"]
            #expect(Set(errors.map(\.code)) == Set(codes))
            for code in codes { #expect(ending.errors.contains(code), "\(ending.errors)") }
            #expect(try home.ledger().first { $0.error?.code == "unreachable" }?.attempts == 2)
            #expect(!ending.errors.contains("Fatal"))
        }
    }

    @Test func jobsOfAJSONLHaveTheirOwnWishes() async throws {
        let home = try Home()
        let image = try home.directory.write(TestImage.quarters(width: 100, height: 50), to: "in/a.png")
        let lines = [
            #"{"source":"file://\#(image)","renditions":[{"name":"s","width":20,"format":"webp"}]}"#,
            #"{"source":"file://\#(image)","output":"file://\#(home.output)/own/{stem}-{name}.{ext}"}"#,
            #"{"source":"file://\#(image)","colour":"red"}"#, "not json",
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "in/jobs.jsonl")
        let ending = try await home.run([list, "--size", "10x10"])
        #expect(ending.code == 2)
        let errors = try home.ledger().compactMap(\.error)
        #expect(errors.count == 2 && errors.allSatisfy { $0.code == "invalid_job" })
        #expect(errors.contains { $0.message.contains("\"colour\"") })
        #expect(ending.errors.contains("jobs.jsonl, line 3 is not a job: "), "\(ending.errors)")
        #expect(ending.errors.contains("jobs.jsonl, line 4 is not a job: "), "\(ending.errors)")
        #expect(home.outputs.contains("own/a-10x10.jpg"))
        #expect(home.outputs.contains { $0.hasSuffix("-s.webp") })
    }

    @Test func ctrlCLeavesNothingBehindAndTheNextRunFinishes() async throws {
        let home = try Home()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let urls = (0..<200).map { origin.url("/\($0).png").absoluteString }
            let list = try home.directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            origin.hold()
            let run = try home.megaton(["run", list, "--output", home.output, "--json", "--allow-private"])
            // The first jobs of the list are claimed together, and four of them ask the new host.
            await origin.waitForRequests(count: 1)
            run.send(SIGINT)
            let ending = await run.ending()
            #expect(ending.code == 130, "\(ending.errors)")
            origin.release()
            #expect(try Self.processes(mentioning: home.directory.path).isEmpty)
            #expect(home.outputs.allSatisfy { $0.hasSuffix("-256x256.jpg") }, "no temporary file is left")
            let lines = try home.ledger().count
            #expect(lines == 200 || ending.errors.contains("have no line in the ledger"), "\(lines): \(ending.errors)")
            let second = try await home.run([list, "--allow-private"])
            #expect(second.code == 0)
            #expect(home.outputs.count == 200)
        }
    }

    /// Fault: a run whose terminal was closed left an empty ledger and temporary directories behind.
    ///
    /// - Parameter option: an option of `env`, because the tests themselves may run under `nohup`, which children
    ///   inherit.
    @Test(arguments: [("--default-signal=HUP", 130), ("--ignore-signal=HUP", 0)] as [(String, Int32)])
    func aClosedTerminalIsOneCtrlCExceptBeneathNohup(_ option: String, _ code: Int32) async throws {
        let home = try Home()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            origin.hold()
            let url = origin.url("/a.png").absoluteString
            let run = try ProgramUnderTest(
                program: "/usr/bin/env",
                arguments: [
                    option, Self.program, "run", url, "--output", home.output, "--workers", "1", "--allow-private",
                ],
                environment: home.environment.merging(["TMPDIR": home.directory.path]) { $1 }
            )
            await origin.waitForRequests("/a.png", count: 1)
            for _ in 0..<2 { run.send(SIGHUP) }
            if code == 0 { origin.release() }
            let ending = await run.ending()
            origin.release()
            #expect(ending.code == code, "\(ending.errors)")
            let expected: JobOutcome.Status = code == 0 ? .done : .cancelled
            #expect(try home.ledger().map(\.status) == [expected])
            #expect(!home.directory.files.contains { $0.hasPrefix("megaton-") }, "\(home.directory.files)")
        }
    }

    @Test func aSecondRunAtTheSameTimeHasACacheOfItsOwn() async throws {
        let home = try Home()
        let image = TestImage.quarters(width: 64, height: 64)
        let path = try home.directory.write(image, to: "in/a.png")
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            origin.hold()
            let url = origin.url("/a.png").absoluteString
            let first = try home.megaton(["run", url, "--output", home.output, "--allow-private"])
            await origin.waitForRequests("/a.png", count: 1)
            let second = await (try home.megaton(["run", path, "--output", home.directory.path + "/second"])).ending()
            #expect(second.code == 0 && second.errors.contains("a cache of its own"), "\(second.errors)")
            origin.release()
            #expect(await first.ending().code == 0)
        }
    }

    /// An untrusted list must not control the terminal.
    @Test func controlCharactersAreWrittenOut() async throws {
        let home = try Home()
        let list = try home.directory.write(Data("in/\u{1B}[31mx.jpg\n".utf8), to: "list.txt")
        let ending = await (try home.run([list, "--workers", "1"]))
        #expect(ending.code == 2)
        #expect(!ending.errors.contains("\u{1B}") && ending.errors.contains(#"\u{1B}[31mx.jpg"#), "\(ending.errors)")
    }

    private static let wrongUsages: [(arguments: [String], word: String)] = [
        (["run"], "input"), (["run", "x.jpg"], "--output"),
        (["run", "/no/such.jpg", "--output", "/tmp/x"], "no such file"),
        (["run", "/tmp", "--output", "/tmp/x", "--size", "big"], "256x256"),
        (["run", "/tmp", "--output", "/tmp/x", "--format", "bmp"], "jpeg (also jpg), png, webp"),
        (["run", "/tmp", "--output", "/tmp/x", "--rendition", "fit=round,width=1"], "inside"),
        (["run", "/tmp", "--output", "/tmp/x", "--rendition", "heigth=1"], "heigth"),
        (["run", "/tmp", "--output", "/tmp/x", "--workers", "0"], "--workers"),
        (["run", "/tmp", "--output", "/tmp/x", "--redis", "http://h"], "http"), (["worker"], "MEGATON_REDIS"),
        (["worker", "--redis", "redis://h", "--allow-root", "/no/such"], "/no/such"), (["fly"], "fly"),
        (["run", "/tmp", "--output", "/tmp/x", "--ledger", ""], "--ledger is empty"),
        (["run", "/tmp", "--output", "/tmp/x", "--ca-file", "/nothere"], "--ca-file /nothere cannot be read."),
        (["worker", "--redis", "redis://h", "--ca-file", "/bin/sh"], "has no certificate in PEM format."),
        (["run", "--retry-failed", ""], "--retry-failed is empty"),
        (["run", "/tmp", "--retry-failed", "/bin/sh"], "--output is missing"),
        (["run", "/tmp", "--output", "/tmp", "--dry-run"], "is also an input"),
        (["run", "--retry-failed", "/bin/sh"], "is not a ledger"),
        (["run", "--retry-failed", "/nothere"], "--retry-failed /nothere: no such file.\n"),
        (["run", "--jobs-from", "/nothere", "--output", "/tmp/x"], "--jobs-from /nothere: no such file.\n"),
        (["run", "--retry-failed", "/bin/sh", "--size", "10x10"], "--size does not go with --retry-failed"),
        (["run", "--retry-failed", "/bin/sh", "--rendition", "width=1"], "--rendition does not go with"),
        (["run", "--retry-failed", "/bin/sh", "--format", "jpeg"], "--format does not go with"),
        (["run", "--retry-failed", "/bin/sh", "--enlarge"], "--enlarge does not go with"),
        (["run", "--retry-failed", "/bin/sh", "--output", "/tmp/x"], "--output does not go with --retry-failed"),
        (["run", "/tmp", "--output", "/tmp/x", "--format", "png", "--quality", "5"], "png has no --quality"),
        (["run", "/tmp", "--output", "/tmp/x", "--rendition", "width=1,quality=5,format=gif"], "gif has no quality"),
        (["run", "/tmp", "--output", "/tmp/x", "--size", "1x1", "--size", "1x1"], "share the name 1x1"),
        (["submit", "--retry-failed", "/bin/sh", "--redis", "redis://h", "--quality", "80"], "--quality does not go"),
        (["run", "", "--output", "/tmp/x"], "input is empty"),
        (["run", "/tmp", "--output", "/tmp/x", "--credentials", ""], "--credentials is empty"),
        (["submit", "/tmp", "--redis", "redis://h", "--output", ""], "--output is empty"),
        (["submit", "/tmp", "--redis", "redis://h", "--wait", "--ledger", ""], "--ledger is empty"),
        (["worker", "--redis", "redis://h", "--history", ""], "--history is empty"),
        (["coordinator", "--redis", "redis://h", "--presets", ""], "--presets is empty"),
    ]

    @Test func wrongUsageIsSaidAndExits64() async throws {
        try await inPairs(Self.wrongUsages) { (arguments, word) in
            let home = try Home()
            let ending = await (try home.megaton(arguments)).ending()
            #expect(ending.code == 64)
            #expect(ending.errors.contains(word), "\(ending.errors)")
        }
    }

    @Test func withoutRedisItExits69() async throws {
        let home = try Home()
        let port = try FreePort.find()
        let commands = [
            ["status"], ["stats"], ["worker", "--wait-for-redis", "2"], ["coordinator", "--wait-for-redis", "2"],
            ["doctor"], ["submit", "https://example.org/a.jpg"], ["run", "/tmp", "--output", home.output],
        ]
        // Together, as two of them wait.
        let programs = try commands.map { try home.megaton($0 + ["--redis", "redis://127.0.0.1:\(port)"]) }
        for (arguments, program) in zip(commands, programs) {
            let ending = await program.ending()
            #expect(ending.code == 69, "\(arguments): \(ending.errors)")
            #expect(ending.errors.contains("127.0.0.1:\(port)"), "\(ending.errors)")
        }
        let program = try ProgramUnderTest(
            program: "/usr/bin/env",
            arguments: ["PATH=/nowhere", Self.program, "run", "/tmp", "--output", home.output]
        )
        let ending = await program.ending()
        #expect(ending.code == 69 && ending.errors.contains("apt-get install redis-server"), "\(ending.errors)")
    }

    private static var program: String {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
    }

    /// Command lines of running processes that contain a text.
    static func processes(mentioning text: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int($0) }.compactMap { pid in
            guard pid != getpid(), let data = FileManager.default.contents(atPath: "/proc/\(pid)/cmdline") else {
                return nil
            }
            let line = String(decoding: data, as: UTF8.self).replacingOccurrences(of: "\0", with: " ")
            return line.contains(text) ? line : nil
        }
    }
}
