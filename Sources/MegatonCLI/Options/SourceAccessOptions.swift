import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonPipeline

/// Sources that may be fetched, and the credentials for them.
struct SourceAccessOptions: ParsableArguments {
    @Flag(name: .customLong("allow-private"), help: "Fetch from loopback, private and link-local addresses too.")
    var allowPrivate = false

    @Option(
        name: .customLong("allow-port"),
        help: ArgumentHelp(
            "Fetch from this port of public addresses too, beside 80 and 443. Repeatable.",
            valueName: "port"
        )
    )
    var allowPort: [Int] = []

    @Option(
        name: .customLong("allow-source"),
        help: ArgumentHelp(
            "Fetch from these sources only: [scheme://]host[:port][/path], *.host for all subdomains, host:* for any "
                + "port. Repeatable; by default all sources are allowed.",
            valueName: "rule"
        )
    )
    var allowSource: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "JSON file with the credentials for sources: {\"credentials\": [{\"sources\": [\"example.com\"], "
                + "\"bearer\": \"…\"}]}, or basic, headers, s3. Only the worker's user should be able to read it.",
            valueName: "file"
        ),
        completion: .file()
    )
    var credentials: String?

    @Option(
        name: .customLong("s3-endpoint"),
        help: ArgumentHelp(
            "Store of s3: sources instead of AWS: https://minio.example.com:9000. Its address is allowed even if it is "
                + "private.",
            valueName: "url"
        )
    )
    var s3Endpoint: String?

    @Option(
        name: .customLong("ca-file"),
        help: ArgumentHelp(
            "PEM file with certificates of authorities, such as a private one, for https: sources and the store of "
                + "--s3-endpoint.",
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    @Option(name: .customLong("s3-region"), help: "Region for which requests to s3: sources are signed.")
    var s3Region = SourceAccessOptions.usualRegion

    private static let usualRegion = "us-east-1"

    mutating func validate() throws {
        if credentials?.isEmpty == true { throw ValidationError("--credentials is empty; it must name a file.") }
        if let caFile, let problem = Self.problem(ofCertificates: caFile) {
            throw ValidationError("--ca-file \(caFile) \(problem).")
        }
        for port in allowPort { try OptionRange.check("--allow-port", port, 1...65535) }
        do {
            _ = try sources()
        } catch {
            throw ValidationError("--allow-source: \(error.message)")
        }
        if let s3Endpoint, !["https://", "http://"].contains(where: s3Endpoint.lowercased().hasPrefix) {
            // It may have a password, which is in no message.
            let shown = s3Endpoint.contains("@") ? "" : " \"\(s3Endpoint)\""
            throw ValidationError(
                "--s3-endpoint\(shown) must begin with https:// or http://, as https://minio.example.com:9000 does."
            )
        }
        do {
            try s3.check()
        } catch {
            throw ValidationError("--s3-endpoint: \(error.message)")
        }
    }

    /// Bytes in which the first certificate must begin: no file of authorities has more.
    private static let largestCertificates = 4 << 20

    /// A clause about a file that is not one of certificates; nil if it is.
    private static func problem(ofCertificates path: String) -> String? {
        guard let file = FileHandle(forReadingAtPath: path),
            let data = try? file.read(upToCount: largestCertificates)
        else { return "cannot be read" }
        let hasOne = data.range(of: Data("-----BEGIN CERTIFICATE-----".utf8)) != nil
        return hasOne ? nil : "has no certificate in PEM format"
    }

    /// The options in the place of the library's settings, as `Worker.Configuration.optionNames` has them.
    static let optionNames = [
        "AddressPolicy.allowsPrivate": "--allow-private",
        "add it to AddressPolicy.ports": "give it with --allow-port",
        "the sources allowed": "the sources allowed (--allow-source)",
        "set DataLoader.Configuration.caFile": "give --ca-file",
        "add it to the Credentials of the loader": "add it to the file of --credentials",
    ]

    var addressPolicy: AddressPolicy {
        AddressPolicy(allowsPrivate: allowPrivate, ports: Set(allowPort).union([80, 443]))
    }

    /// - Throws: `.invalidURL` for a text that is not a rule.
    func sources() throws(ImagePipeline.Error) -> [SourceRule] {
        var rules: [SourceRule] = []
        for text in allowSource {
            guard !text.lowercased().hasPrefix("ftp://") else {
                throw ImagePipeline.Error(.invalidURL, "\"\(text)\" allows nothing: ftp is never fetched.")
            }
            rules.append(try SourceRule(text))
        }
        return rules
    }

    /// The credentials; nil if the option is missing.
    ///
    /// - Throws: `CLIError` if the file cannot be read.
    func credentialsFile() throws -> CredentialsFile? { try credentials.map { try CredentialsFile($0) } }

    /// A text that is not a URL becomes one without a host here, which is refused later.
    var s3: S3Endpoint {
        S3Endpoint(url: s3Endpoint.map { URL(string: $0) ?? URL(fileURLWithPath: $0) }, region: s3Region)
    }

    /// Names of the given options.
    var names: [String] {
        let options: [(name: String, isGiven: Bool)] = [
            ("--allow-private", allowPrivate), ("--allow-port", !allowPort.isEmpty),
            ("--allow-source", !allowSource.isEmpty), ("--credentials", credentials != nil),
            ("--ca-file", caFile != nil), ("--s3-endpoint", s3Endpoint != nil),
            ("--s3-region", s3Region != Self.usualRegion),
        ]
        return options.filter(\.isGiven).map(\.name)
    }

    /// The same options for another process.
    var arguments: [String] {
        var arguments: [String] = []
        if allowPrivate { arguments.append("--allow-private") }
        for port in allowPort { arguments += ["--allow-port", String(port)] }
        arguments += allowSource.flatMap { ["--allow-source", $0] }
        if let credentials { arguments += ["--credentials", credentials] }
        if let caFile { arguments += ["--ca-file", caFile] }
        if let s3Endpoint { arguments += ["--s3-endpoint", s3Endpoint] }
        return arguments + ["--s3-region", s3Region]
    }
}
