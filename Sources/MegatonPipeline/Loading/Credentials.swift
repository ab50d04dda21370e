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
/// The first that is for a URL is used. They are looked up for each hop of a redirect anew, and nothing of one hop's is
/// sent to the next.
public struct Credentials: Sendable, Hashable, CustomStringConvertible {
    public let credentials: [Credential]

    public init(_ credentials: [Credential] = []) { self.credentials = credentials }

    /// Reads the JSON above.
    ///
    /// - Throws: `.invalidURL` for a rule that is none, `.forbidden` for other faults; the text never has a secret in it.
    public init(json: Data) throws(ImagePipeline.Error) {
        struct File: Decodable {
            let credentials: [Credential]
        }
        do {
            self.init(try JSONDecoder().decode(File.self, from: json).credentials)
        } catch let error as ImagePipeline.Error {
            throw error
        } catch {
            // What Foundation says may quote the text, and with it a secret.
            throw ImagePipeline.Error(.forbidden, "The credentials cannot be read: \(Self.place(of: error)).")
        }
    }

    public var description: String { credentials.map(\.description).joined(separator: "; ") }

    private static func place(of error: any Swift.Error) -> String {
        let (what, context): (String, DecodingError.Context) =
            switch error as? DecodingError {
            case .keyNotFound(let key, let context): ("\"\(key.stringValue)\" is missing", context)
            case .typeMismatch(let type, let context): ("no \(type)", context)
            case .valueNotFound(let type, let context): ("no \(type)", context)
            case .dataCorrupted(let context) where !context.codingPath.isEmpty: (context.debugDescription, context)
            default: ("no JSON", .init(codingPath: [], debugDescription: ""))
            }
        let path = context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        return path.isEmpty ? what : "\(what) at \(path)"
    }

    /// What a request to a URL is to show, or nil.
    ///
    /// - Parameter name: what the request asks for.
    func credential(for parts: URLParts, named name: String?) -> Credential? {
        credentials.first { $0.name == name && $0.isFor(parts) }
    }

    /// - Throws: `.credentialMissing` where a name is asked for that does not exist, or not for this URL.
    public func check(_ name: String, for url: URL) throws(ImagePipeline.Error) {
        guard credentials.contains(where: { $0.name == name }) else {
            throw ImagePipeline.Error(.credentialMissing, "There is no credential \"\(name)\" for \(url.redacted).")
        }
        guard let parts = URLParts(url), credential(for: parts, named: name) != nil else {
            throw ImagePipeline.Error(
                .credentialMissing,
                "The credential \"\(name)\" is not for \(url.redacted); its sources do not match."
            )
        }
    }
}

extension URLRequest {
    /// Not sent by ``DataLoader``: the name of the credential is taken from it. A header field, as nothing else of a
    /// `URLRequest` reaches a loader; other loaders send the name, which is no secret.
    private static let credentialField = "Megaton-Credential"

    /// Which of the loader's credentials the request asks for. It keeps nothing apart in caches;
    /// ``ImageRequest/credentialScope`` does. Who sets this one sets that one too.
    public var credentialName: String? {
        get { value(forHTTPHeaderField: Self.credentialField) }
        set { setValue(newValue, forHTTPHeaderField: Self.credentialField) }
    }
}
