public import Foundation

/// A real moto_server, which emulates S3, on its own loopback port. It ends with the object.
///
/// It checks signatures as AWS does, after the few requests that create a user with a key and a bucket.
public final class MotoServer: Sendable {
    /// `./scripts/test` installs it into the first of these directories.
    private static let program: String = {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let directories = ["\(Repository.root)/.build/venv/bin"] + path.components(separatedBy: ":")
        let programs = directories.map { "\($0)/moto_server" }
        return programs.first { FileManager.default.isExecutableFile(atPath: $0) } ?? programs[0]
    }()

    public let url: URL
    /// The user's access key.
    public let keyID: String
    public let secret: String
    /// A bucket that exists.
    public static let bucket = "megaton-test"
    private let process: ProgramUnderTest

    /// The server, or a request that prepares it, failed.
    public struct CannotStart: Error {
        public let errors: String
    }

    public static func start() async throws -> MotoServer {
        let port = try FreePort.find()
        let process = try ProgramUnderTest(
            program: program,
            arguments: ["-H", "127.0.0.1", "-p", "\(port)"],
            environment: ["INITIAL_NO_AUTH_ACTION_COUNT": "4"]
        )
        let address = "http://127.0.0.1:\(port)"
        // curl retries until the server listens; it has no other signal.
        _ = try await curl(["--retry", "100", "--retry-connrefused", "--retry-delay", "1", "\(address)/moto-api/"])
        _ = try await iam(address, "CreateUser&UserName=u")
        let answer = try await iam(address, "CreateAccessKey&UserName=u")
        let policy = #"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#
        let allowed = CharacterSet.alphanumerics
        let document = policy.addingPercentEncoding(withAllowedCharacters: allowed) ?? ""
        _ = try await iam(address, "PutUserPolicy&UserName=u&PolicyName=p&PolicyDocument=\(document)")
        _ = try await curl(["-X", "PUT", "\(address)/\(bucket)"])
        guard let url = URL(string: address), let keyID = element("AccessKeyId", of: answer),
            let secret = element("SecretAccessKey", of: answer)
        else { throw CannotStart(errors: answer) }
        return MotoServer(url, keyID, secret, process)
    }

    private init(_ url: URL, _ keyID: String, _ secret: String, _ process: ProgramUnderTest) {
        self.url = url
        self.keyID = keyID
        self.secret = secret
        self.process = process
    }

    private static func iam(_ address: String, _ action: String) async throws -> String {
        // moto routes requests to services by the scope of the signature, which it does not check yet at this point.
        let scope =
            "AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
        return try await curl(["-H", "Authorization: \(scope)", "-d", "Action=\(action)", address])
    }

    private static func curl(_ arguments: [String]) async throws -> String {
        let curl = try ProgramUnderTest(program: "/usr/bin/curl", arguments: ["-sS", "--fail"] + arguments)
        let ending = await curl.ending()
        guard ending.code == 0 else { throw CannotStart(errors: ending.errors) }
        return ending.output
    }

    private static func element(_ name: String, of text: String) -> String? {
        guard let start = text.range(of: "<\(name)>"), let end = text.range(of: "</\(name)>") else { return nil }
        return String(text[start.upperBound..<end.lowerBound])
    }

    /// Kills the server and waits for its end.
    public func stop() async {
        process.send(SIGKILL)
        _ = await process.ending()
    }
}
