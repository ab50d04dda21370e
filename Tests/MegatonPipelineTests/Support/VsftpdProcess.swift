import Foundation
import MegatonTestSupport

/// A real FTP server with anonymous access on its own loopback port. It ends with the object.
final class VsftpdProcess: Sendable {
    let port: Int
    private let directory: TestDirectory
    private let process: ProgramUnderTest

    struct Ended: Error {
        let errors: String
    }

    /// Starts the server and waits until it listens.
    ///
    /// - Parameter files: contents by file name.
    static func start(files: [String: Data]) async throws -> VsftpdProcess {
        let directory = try TestDirectory()
        for (name, data) in files { try directory.write(data, to: "files/\(name)") }
        let port = try FreePort.find()
        let lines = [
            "listen=YES", "background=NO", "listen_address=127.0.0.1", "listen_port=\(port)", "anonymous_enable=YES",
            "no_anon_password=YES", "local_enable=NO", "anon_root=\(directory.path)/files", "run_as_launching_user=YES",
            "xferlog_enable=NO",
        ]
        let file = try directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "vsftpd.conf")
        let process = try ProgramUnderTest(program: "/usr/sbin/vsftpd", arguments: [file])
        // The server does not report when it listens.
        while !FreePort.isListening(port) {
            guard process.isRunning else { throw Ended(errors: process.errors + process.output) }
            await Task.yield()
        }
        return VsftpdProcess(port, directory, process)
    }

    private init(_ port: Int, _ directory: TestDirectory, _ process: ProgramUnderTest) {
        self.port = port
        self.directory = directory
        self.process = process
    }

    func url(_ path: String) -> URL { URL(string: "ftp://127.0.0.1:\(port)\(path)")! }
}
