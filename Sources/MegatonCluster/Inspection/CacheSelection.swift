package import Foundation
internal import MegatonPipeline

/// Entries of a shared cache, by their sources and by the names of renditions.
package struct CacheSelection: Sendable {
    private let urls: Set<String>
    private let hosts: Set<String>
    private let prefixes: [String]
    private let renditions: Set<String>
    /// URLs as they were given, for the keys of their originals.
    let locations: [URL]

    /// - Parameters:
    ///   - urls: a URL stands for its entries with any query.
    ///   - hosts: `host` with any port, or `host:port`, in any spelling.
    ///   - prefixes: beginnings of URLs without user, password and query, whose characters may be percent-encoded.
    ///   - renditions: if there are any, only renditions that were made under one of these names are selected.
    package init(urls: [URL] = [], hosts: [String] = [], prefixes: [String] = [], renditions: [String] = []) {
        locations = urls
        self.urls = Set(urls.map(ImagePipeline.Error.withoutQuery))
        self.hosts = Set(hosts.map(OriginHost.named))
        self.prefixes = prefixes.map { Self.normalized(URL(string: $0)?.absoluteString ?? $0) }
        self.renditions = Set(renditions)
    }

    /// A URL, or its beginning, with scheme and host in lower case (RFC 3986 section 6.2.2.1).
    private static func normalized(_ text: String) -> String {
        guard let colon = text.firstRange(of: "://") else { return text }
        let path = text[colon.upperBound...].firstIndex(of: "/") ?? text.endIndex
        return text[..<path].lowercased() + text[path...]
    }

    /// Whether originals and failures are selected too.
    var hasOriginals: Bool { renditions.isEmpty }

    /// Whether an entry is selected.
    package func includes(_ entry: CacheListing.Entry) -> Bool {
        if !renditions.isEmpty {
            guard entry.kind == .rendition, let name = entry.rendition, renditions.contains(name) else { return false }
            if urls.isEmpty && hosts.isEmpty && prefixes.isEmpty { return true }
        }
        return includes(source: entry.source)
    }

    /// Whether the entries of a source are selected.
    ///
    /// - Parameter source: its URL without the query.
    func includes(source: String?) -> Bool {
        guard let source else { return false }
        if urls.contains(source) { return true }
        if !prefixes.isEmpty, prefixes.contains(where: Self.normalized(source).hasPrefix) { return true }
        guard !hosts.isEmpty, let url = URL(string: source) else { return false }
        return OriginHost.isAmong(OriginHost.name(of: url), of: hosts)
    }
}
