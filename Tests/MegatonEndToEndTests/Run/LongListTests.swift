import Foundation
import MegatonCluster
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonCLI

/// Lists that are longer than the queue and the memory of a client take at once.
@Suite(.timeLimit(.minutes(3))) struct LongListTests {
    /// More lines than are read ahead.
    private static let many = 45_000

    /// Of two hosts, the slow one at the beginning and the end of the list.
    @Test func jobsOfASlowHostAtTheEndAreNotTheLast() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        // At most 320 a second on any machine, as each of 16 places waits for 50 ms.
        let quick = 3000
        try await OriginServer.run(delay: .milliseconds(50), answer: { _ in .image(image) }) { (fast) async throws in
            let seen = Mutex<[Int]>([])
            let answer: @Sendable (String) -> OriginServer.Answer = { path in
                seen.withLock { $0.append(fast.total) }
                return path.hasPrefix("/2") ? OriginServer.Answer(status: 404) : .image(image)
            }
            try await OriginServer.run(delay: .milliseconds(1200), answer: answer) { (slow) async throws in
                let lines =
                    (0..<5).map { slow.url("/\($0).png").absoluteString }
                    + (0..<quick).map { fast.url("/\($0).png").absoluteString }
                    + (5..<25).map { slow.url("/\($0).png").absoluteString }
                let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
                let options = ["--allow-private", "--workers", "1", "--concurrency", "16", "--size", "16"]
                let ending = try await home.run([list] + options)
                #expect(ending.code == 2, "\(ending.errors)")
                let ledger = try home.ledger()
                #expect(ledger.count == lines.count && home.outputs.count == lines.count - 6)
                // A retry may be in a queue that others use.
                let failed = ledger.compactMap(\.job)
                #expect(failed.count == 6 && failed.allSatisfy { $0.priority == .normal })
                let counts = seen.withLock { $0 }
                #expect(counts.count == 25 && counts.max() ?? quick < quick * 9 / 10, "\(counts)")
            }
        }
    }

    /// Fault: a reader that was ahead waited for room that nothing made any more.
    @Test func theFirstSignalEndsARunWhoseListIsBeingRead() async throws {
        let home = try RunTests.Home()
        try await OriginServer.run(answer: { _ in .image(TestImage.quarters(width: 8, height: 8)) }) { origin in
            let lines = (0..<Self.many).map { origin.url("/\($0).png").absoluteString }
            let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
            origin.hold()
            let run = try home.megaton(["run", list, "--output", home.output, "--allow-private"])
            await origin.waitForRequests(count: 1)
            run.send(SIGINT)
            let ending = await run.ending()
            #expect(ending.code == 130, "\(ending.errors)")
            origin.release()
        }
    }

    /// Fault: the command waited for its reader, which waited for room.
    @Test(arguments: [[], ["--wait"]]) func aListOfABatchThatExistsIsRefusedAtOnce(_ options: [String]) async throws {
        let home = try RunTests.Home()
        let lines = (0..<Self.many).map { "https://example.org/\($0).png" }
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
        try await RedisServerProcess.run { (server) async throws in
            let submit = ["submit", "--redis", server.url, "--batch", "b"]
            let first = await (try ProgramUnderTest.megaton(submit + ["https://example.org/a.png"])).ending()
            #expect(first.code == 0, "\(first.errors)")
            let second = await (try ProgramUnderTest.megaton(submit + [list] + options)).ending()
            #expect(second.code != 0 && second.errors.contains("submitted before"), "\(second.errors)")
        }
    }

    /// Jobs that are not in the queue would be missing from a batch that goes on without its submitter.
    @Test func aSubmitterThatIsOutOfTimeHasPushedItsList() async throws {
        let home = try RunTests.Home()
        let lines = (0..<2000).map { "https://example.org/\($0).png" }
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
        try await RedisServerProcess.run { (server) async throws in
            let submit = ["submit", list, "--redis", server.url, "--batch", "b", "--wait", "--timeout", "8"]
            let ending = await (try ProgramUnderTest.megaton(submit)).ending()
            #expect(ending.code == 75 && !ending.errors.contains("not all were submitted"), "\(ending.errors)")
            let show = ["batch", "show", "b", "--redis", server.url]
            let shown = await (try ProgramUnderTest.megaton(show)).ending()
            let counts = try JSONSerialization.jsonObject(with: Data(shown.output.utf8)) as? [String: Any]
            #expect(counts?["submitted"] as? Int == 2000, "\(shown.output)")
        }
    }
}
