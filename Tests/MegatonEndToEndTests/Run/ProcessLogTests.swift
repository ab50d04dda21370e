import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// Logs and directories of the processes that a run starts.
@Suite(.timeLimit(.minutes(1))) struct ProcessLogTests {
    /// Fault: the end of a log was cut in the middle of a line, began in the life of another process, and was a warning
    /// about a setting.
    @Test func aMessageHasTheErrorsOfOneLife() throws {
        let directory = try TestDirectory()
        let earlier = "2026-11-23T08:00:00+0000 error megaton.worker: [MegatonCluster] of an earlier life\n"
        let log = try directory.write(
            Data(
                (earlier + "2026-11-23T08:00:01+0000 warning megaton.worker: relaxes the security defaults\n"
                    + "2026-11-23T08:00:02+0000 error megaton.worker: Redis is away\n"
                    + "Fatal error: a crash\n").utf8
            ),
            to: "worker.log"
        )
        let start = UInt64(earlier.utf8.count)
        let error = "2026-11-23T08:00:02+0000 error megaton.worker: Redis is away"
        #expect(LogTail.errors(ofLog: log, from: start) == "\(error)\nFatal error: a crash")
        #expect(LogTail.errors(ofLog: log, from: LogTail.size(ofLog: log)).isEmpty)
        #expect(LogTail.errors(ofLog: "\(directory.path)/none").isEmpty)
        let long = try directory.write(Data(String(repeating: "x", count: 100_000).utf8), to: "long.log")
        #expect(LogTail.errors(ofLog: long).isEmpty, "a line whose begin is not read is left out")
    }

    /// Fault: warnings of a killed redis-server about the machine were shown as its last words.
    @Test func anEndOfRedisSaysWhatToDo() {
        let log = "1:M # WARNING Memory overcommit must be enabled!\n1:M # Fatal error loading the DB: Bad file.\n"
        let killed = EmbeddedRedis.ended(.signaled(9), log: log).message
        #expect(killed == "the private redis-server ended (signal 9). The same command again makes what is missing.")
        let failed = EmbeddedRedis.ended(.exited(1), log: log).message
        #expect(failed.hasSuffix("Its log: 1:M # Fatal error loading the DB: Bad file."), "\(failed)")
    }

    /// Fault: the directories of a killed run stayed for ever.
    @Test func theDirectoriesOfDeadProcessesAreRemoved() throws {
        let parent = try TestDirectory()
        let alive = try TemporaryDirectory(in: parent.path)
        try parent.write(Data(), to: "megaton-dead00/owner")
        try parent.write(Data(), to: "megaton-other0/file")
        try parent.write(Data(), to: "other/owner")
        let next = try TemporaryDirectory(in: parent.path)
        let all = try FileManager.default.contentsOfDirectory(atPath: parent.path)
        let kept = [alive.path, next.path].map { ($0 as NSString).lastPathComponent }
        #expect(Set(all) == Set(kept + ["megaton-other0", "other"]), "\(all)")
        alive.remove()
        next.remove()
        #expect(try FileManager.default.contentsOfDirectory(atPath: parent.path).count == 2)
    }

    /// Fault: the message did not say how to name another place.
    @Test func aMissingPlaceForDirectoriesIsReportedWithTheVariable() {
        #expect { try TemporaryDirectory(in: "/nonexistent") } throws: { error in
            let message = (error as? CLIError)?.message ?? ""
            return message.contains("/nonexistent: No such file or directory. TMPDIR in the environment")
        }
    }
}
