public import Foundation
public import FoundationNetworking

/// The credentials of a loader, by host and by name.
///
/// ```json
/// {"credentials": [
///   {"sources": ["cdn.example.com/private"], "bearer": "…"},
///   {"name": "partner", "sources": ["*.example.org"], "basic": {"user": "…", "password": "…"}},
///   {"sources": ["https://images.example.net:*"], "headers": {"X-Api-Key": "…"}},
///   {"sources": ["s3://originals"], "s3": {"id": "…", "secret": "…"}}
/// ]}
/// ```
///
/// The first one that matches name and URL of a request is used. Each hop of a redirect is looked up separately, and
/// the credential of one hop is not sent to the next.
public struct Credentials: Sendable, Hashable, CustomStringConvertible {
    /// The credentials, in the order in which they are tried.
    public let credentials: [Credential]

    /// Creates a set of credentials.
    public init(_ credentials: [Credential] = []) { self.credentials = credentials }

    /// Reads the JSON above.
    ///
    /// - Throws: `.invalidURL` for an invalid rule, `.forbidden` for other errors; the message never contains a secret.
    public init(json: Data) throws(ImageError) {
        do {
            self.init(try JSONDecoder().decode(File.self, from: json).credentials)
        } catch let error as ImageError {
            throw error
        } catch {
            // Foundation's message may quote the input, and with it a secret.
            let reason = FieldProblem.sentence("The credentials cannot be read: \(Self.problem(error))")
            throw ImageError(.forbidden, reason)
        }
    }

    /// The whole file.
    private struct File: Decodable {
        let credentials: [Credential]

        private enum CodingKeys: String, CodingKey, CaseIterable {
            case credentials
        }

        init(from decoder: any Decoder) throws {
            try decoder.refuseUnknownFields(except: CodingKeys.self)
            credentials = try decoder.container(keyedBy: CodingKeys.self).decode(
                [Credential].self,
                forKey: .credentials
            )
        }
    }

    public var description: String { credentials.map(\.description).joined(separator: "; ") }

    private static func problem(_ error: any Swift.Error) -> String {
        guard let error = error as? DecodingError else { return "the file is not JSON" }
        if let problem = error.fieldProblem {
            return problem.path.isEmpty ? "the file \(problem)" : problem.description
        }
        let (reason, context): (String, DecodingError.Context) =
            switch error {
            case .keyNotFound(let key, let context): ("\"\(key.stringValue)\" is missing", context)
            case .typeMismatch(let type, let context), .valueNotFound(let type, let context):
                ("\(name(of: type)) is expected", context)
            default: ("the file is not JSON", .init(codingPath: [], debugDescription: ""))
            }
        let path = FieldProblem.path(context.codingPath)
        return path.isEmpty ? reason : "\(reason) at \(path)"
    }

    /// The JSON name of a type, with its article.
    private static func name(of type: Any.Type) -> String {
        let name = "\(type)"
        if name == "String" { return "a text" }
        return name.hasPrefix("Array") ? "a list" : "an object"
    }

    /// The credential for a request to a URL, if any.
    ///
    /// - Parameter name: the name that the request asks for.
    func credential(for parts: URLParts, named name: String?) -> Credential? {
        credentials.first { $0.name == name && $0.isFor(parts) }
    }

    /// - Throws: `.credentialMissing` if no credential has this name, or none of those is for this URL.
    package func check(_ name: String, for url: URL) throws(ImageError) {
        guard credentials.contains(where: { $0.name == name }) else {
            throw ImageError(
                .credentialMissing,
                "There is no credential \"\(name)\" for \(url.redacted); add it to the Credentials of the loader."
            )
        }
        guard let parts = URLParts(url), credential(for: parts, named: name) != nil else {
            throw ImageError(
                .credentialMissing,
                "The credential \"\(name)\" is not for \(url.redacted); its sources do not match."
            )
        }
    }
}

extension URLRequest {
    /// Carries the credential's name, and is removed by ``DataLoader``. A header field, because no other custom
    /// property of a `URLRequest` reaches a loader. Other loaders send the name, which is not secret.
    private static let credentialField = "Megaton-Credential"

    /// Name of the loader's credential for this request. It does not separate entries in caches: a caller that sets it
    /// has to set ``ImageRequest/credentialScope`` too.
    public var credentialName: String? {
        get { value(forHTTPHeaderField: Self.credentialField) }
        set { setValue(newValue, forHTTPHeaderField: Self.credentialField) }
    }
}
