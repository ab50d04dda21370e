import Foundation
import MegatonTestSupport
import Testing

/// The lines of a worker's log about its jobs.
@Suite(.timeLimit(.minutes(2))) struct JobLogTests {
    @Test func eachEndHasALineWithItsFields() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        try await RedisServerProcess.run { (server) async throws in
            let worker = try ProgramUnderTest.megaton([
                "worker", "--redis", server.url, "--allow-root", directory.path, "--log-format", "json",
            ])
            let image = try directory.write(TestImage.quarters(width: 40, height: 30), to: "a.png")
            let bad = try directory.write(Data("no image".utf8), to: "bad.png")
            let submit = try ProgramUnderTest.megaton([
                "submit", "--redis", server.url, "--wait", "--batch", "b", "--size", "8x8", "--output",
                directory.path + "/out", image, bad,
            ])
            #expect(await submit.ending().code == 2)
            worker.send(SIGTERM)
            let log = await worker.ending().errors
            let lines = try log.split(separator: "\n").map { line in
                try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
            }
            let ends = lines.filter { $0["job.result"] != nil }
            #expect(ends.count == 2)
            let done = try #require(ends.first { $0["job.result"] as? String == "done" })
            #expect(done["level"] as? String == "info" && done["message"] as? String == "a job has ended")
            #expect(done["batch"] as? String == "b" && done["attempts"] as? Int == 1)
            #expect((done["job.source"] as? String)?.hasSuffix("/a.png") == true)
            #expect((done["job.bytes_in"] as? Int ?? 0) > 0 && (done["job.bytes_out"] as? Int ?? 0) > 0)
            #expect((done["job.seconds"] as? Double ?? -1) >= 0 && done["job.seconds.render"] != nil)
            #expect((done["worker.id"] as? String)?.contains(":") == true)
            let failed = try #require(ends.first { $0["job.result"] as? String == "failed" })
            #expect(failed["level"] as? String == "error" && failed["error.code"] as? String == "unsupported_format")
        }
    }

    @Test func anUnknownFormatIsRefused() async throws {
        let worker = try ProgramUnderTest.megaton(["worker", "--redis", "redis://127.0.0.1:1", "--log-format", "xml"])
        let ending = await worker.ending()
        #expect(ending.code == 64 && ending.errors.contains("--log-format must be text or json, not \"xml\"."))
    }
}
