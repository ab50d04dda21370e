import Foundation
import MegatonRedis
import MegatonTestSupport

/// A redis-server that can be killed, stopped and started again on the same port and with the same data.
///
/// Not safe for concurrent use.
final class RestartableRedis {
    let port: Int
    private let directory: TestDirectory
    private let settings: [String]
    private var process: ProgramUnderTest

    /// - Parameter settings: lines of redis.conf.
    init(settings: [String]) throws {
        port = try FreePort.find()
        directory = try TestDirectory()
        self.settings = settings
        process = try Self.launch(port, directory, settings)
    }

    var url: String { "redis://127.0.0.1:\(port)" }

    private static func launch(_ port: Int, _ directory: TestDirectory, _ settings: [String]) throws -> ProgramUnderTest
    {
        var arguments = ["--port", String(port), "--bind", "127.0.0.1", "--dir", directory.path, "--daemonize", "no"]
        arguments += ["--enable-debug-command", "local", "--save", ""]
        for setting in settings {
            let words = setting.split(separator: " ", maxSplits: 1).map(String.init)
            arguments += ["--" + words[0]] + words.dropFirst()
        }
        return try ProgramUnderTest(program: "/usr/bin/redis-server", arguments: arguments)
    }

    func send(_ signal: Int32) { process.send(signal) }

    /// Kills the server. With `appendfsync always` no acknowledged write is lost. With `everysec` Redis may acknowledge
    /// a write up to two seconds before it reaches the file, if the disk is slow to sync.
    func kill() async {
        process.send(SIGKILL)
        _ = await process.ending()
    }

    /// Starts the server again after `kill`.
    func start() throws { process = try Self.launch(port, directory, settings) }

    /// Kills the server and removes its data.
    func remove() async {
        await kill()
        directory.remove()
    }
}
