import Foundation
import MegatonTestSupport

/// A real sentinel that watches one Redis under the name `mymaster`. It ends with the object.
final class SentinelProcess: Sendable {
    let port: Int
    private let directory: TestDirectory
    private let process: ProgramUnderTest

    /// Starts the sentinel. It answers a little later; a client with a timeout waits for that.
    ///
    /// - Parameter settings: lines of sentinel.conf.
    init(masterPort: Int, settings: [String] = []) throws {
        let directory = try TestDirectory()
        let port = try FreePort.find()
        let lines =
            [
                "port \(port)", "bind 127.0.0.1", "dir \(directory.path)",
                "sentinel monitor mymaster 127.0.0.1 \(masterPort) 1",
                // No failover of its own: the tests trigger it.
                "sentinel down-after-milliseconds mymaster 600000",
            ] + settings
        let file = try directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "sentinel.conf")
        process = try ProgramUnderTest(program: RedisPrograms.server, arguments: [file, "--sentinel"])
        self.directory = directory
        self.port = port
    }

    /// Kills the sentinel and waits for its end.
    func stop() async {
        process.send(SIGKILL)
        _ = await process.ending()
        directory.remove()
    }
}
