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
        #expect(
            killed == "the private redis-server ended (signal 9). The same command again makes the missing outputs."
        )
        let failed = EmbeddedRedis.ended(.exited(1), log: log).message
        #expect(failed.hasSuffix("Its log: 1:M # Fatal error loading the DB: Bad file."), "\(failed)")
    }

    /// Fault: a server that never started was reported like one that ended in the middle of a run.
    @Test func aRedisThatDoesNotStartIsReportedWithItsDirectory() {
        let log = "*** FATAL CONFIG FILE ERROR ***\n>>> 'maxmemory x'\n"
        let error = EmbeddedRedis.didNotStart(.exited(1), "/cache/megaton", log: log)
        #expect(
            error.message == "the private redis-server did not start with its data in /cache/megaton (exit code 1); "
                + "nothing was begun. Its log: *** FATAL CONFIG FILE ERROR ***\n>>> 'maxmemory x'"
        )
        #expect(error.code == 69)
    }

    /// Fault: lines about the ordinary life of a redis-server were shown as its errors.
    @Test func onlyErrorsOfALogOfRedisAreShown() {
        let time = "12:M 23 Nov 2026 08:00:00.000"
        let error = "\(time) # Failed opening the RDB file: No space left on device"
        let log = [
            "\(time) # Configuration loaded", "\(time) # WARNING Memory overcommit must be enabled!", error,
            "=== crash ===",
            "\(time) * DB saved on disk", "\(time) - 1 client connected", "12:C 23 Nov 2026 08:00:00.000 . a detail",
        ].joined(separator: "\n")
        #expect(LogTail.errors(ofRedisLog: log) == "\(error)\n=== crash ===")
    }

    /// Fault: the directories of a killed run stayed for ever.
    @Test func theDirectoriesOfDeadProcessesAreRemoved() throws {
        let parent = try TestDirectory()
        let alive = try TemporaryDirectory(in: parent.path)
        try Self.leave("megaton-dead00", in: parent)
        let others = ["megaton-other0", "megaton-longer0", "other", "megaton-mode00", "megaton-words0"]
        try parent.write(Data(), to: "megaton-other0/owner")
        try Self.leave("megaton-longer0", in: parent)
        try Self.leave("other", in: parent)
        try Self.leave("megaton-mode00", in: parent, mode: 0o755)
        try Self.leave("megaton-words0", in: parent, content: "")
        let next = try TemporaryDirectory(in: parent.path)
        let all = try FileManager.default.contentsOfDirectory(atPath: parent.path)
        let kept = [alive.path, next.path].map { ($0 as NSString).lastPathComponent }
        #expect(Set(all) == Set(kept + others), "\(all)")
        alive.remove()
        next.remove()
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: parent.path)) == Set(others))
    }

    /// Fault: a directory was removed while a child of its dead process still used it.
    @Test func theDirectoryOfALivingChildStays() async throws {
        let parent = try TestDirectory()
        let left = try Self.leave("megaton-dead00", in: parent)
        let child = ChildProcess(
            command: ["/bin/sleep", "60"],
            gracePeriod: .seconds(5),
            lock: "\(left)/\(TemporaryDirectory.lockName)"
        )
        let task = Task { try await child.run() }
        let file = open("\(left)/\(TemporaryDirectory.lockName)", O_RDWR | O_CLOEXEC)
        defer { close(file) }
        while flock(file, LOCK_EX | LOCK_NB) == 0, !Task.isCancelled {
            flock(file, LOCK_UN)
            await Task.yield()
        }
        try TemporaryDirectory(in: parent.path).remove()
        #expect(FileManager.default.fileExists(atPath: left))
        task.cancel()
        _ = try? await task.value
        try TemporaryDirectory(in: parent.path).remove()
        #expect(!FileManager.default.fileExists(atPath: left))
    }

    /// A directory of a process that was killed.
    @discardableResult
    private static func leave(
        _ name: String,
        in parent: TestDirectory,
        mode: Int = 0o700,
        content: String = TemporaryDirectory.lockContent
    ) throws -> String {
        try parent.write(Data(content.utf8), to: "\(name)/\(TemporaryDirectory.lockName)")
        let path = "\(parent.path)/\(name)"
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    /// Fault: the message did not say how to name another place.
    @Test func aMissingPlaceForDirectoriesIsReportedWithTheVariable() {
        #expect { try TemporaryDirectory(in: "/nonexistent") } throws: { error in
            let message = (error as? CLIError)?.message ?? ""
            return message.contains("/nonexistent: No such file or directory. TMPDIR in the environment")
        }
    }
}
