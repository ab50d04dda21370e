import Foundation
import MegatonTestSupport

/// A real nginx with TLS and HTTP/2 on its own loopback port. It ends with the object.
final class NginxProcess: Sendable {
    let port: Int
    /// The server's self-signed certificate, for the host name that the tests use.
    let certificate: String
    private let directory: TestDirectory
    private let process: ProgramUnderTest

    struct NoCertificate: Error {
        let errors: String
    }

    /// Starts nginx and waits until it listens.
    ///
    /// - Parameters:
    ///   - files: contents by file name.
    ///   - settings: lines of its `server` block.
    static func start(files: [String: Data], settings: [String] = []) async throws -> NginxProcess {
        let directory = try TestDirectory()
        let certificate = try await makeCertificate(directory)
        for (name, data) in files { try directory.write(data, to: "www/\(name)") }
        let port = try FreePort.find()
        let path = directory.path
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(path)/\($0);" }
        let lines =
            [
                "daemon off; master_process off; worker_processes 1;", "pid \(path)/nginx.pid;",
                "error_log \(path)/error.log;", "events { worker_connections 256; }", "http {", "access_log off;",
            ] + temporary + [
                "server { listen 127.0.0.1:\(port) ssl http2; server_name pictures.test;",
                "ssl_certificate \(certificate); ssl_certificate_key \(path)/key.pem; root \(path)/www;",
            ] + settings + ["} }"]
        let file = try directory.write(Data(lines.joined(separator: "\n").utf8), to: "nginx.conf")
        let process = try ProgramUnderTest(
            program: "/usr/sbin/nginx",
            arguments: ["-p", path, "-e", "\(path)/error.log", "-c", file]
        )
        // nginx writes this file once it listens.
        try await directory.waitForFile(named: "nginx.pid")
        return NginxProcess(port, certificate, directory, process)
    }

    private init(_ port: Int, _ certificate: String, _ directory: TestDirectory, _ process: ProgramUnderTest) {
        self.port = port
        self.certificate = certificate
        self.directory = directory
        self.process = process
    }

    private static func makeCertificate(_ directory: TestDirectory) async throws -> String {
        let certificate = "\(directory.path)/certificate.pem"
        let openssl = try ProgramUnderTest(
            program: "/usr/bin/openssl",
            arguments: [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=pictures.test", "-addext", "subjectAltName=DNS:pictures.test",
                "-keyout", "\(directory.path)/key.pem", "-out", certificate,
            ]
        )
        let ending = await openssl.ending()
        guard ending.code == 0 else { throw NoCertificate(errors: ending.errors) }
        return certificate
    }

    func url(_ path: String, host: String = "pictures.test") -> URL { URL(string: "https://\(host):\(port)\(path)")! }

    /// Kills the server and waits for its end.
    func stop() async {
        process.send(SIGKILL)
        _ = await process.ending()
        directory.remove()
    }
}
