internal import Foundation
internal import MegatonPipeline

/// Names of origin hosts, as in host limits and in the record of a job.
enum OriginHost {
    /// Maximum number of bytes of `host:port`: a name has at most 253 (RFC 1035 section 2.3.4). The queue keeps the
    /// host in the record of each job, which its scripts read.
    static let longest = 253 + ":65535".utf8.count

    /// `host:port`, the same for all spellings of a host. It has no character that separates the fields of a job's
    /// record.
    static func name(of url: URL) -> String {
        let port = url.port ?? defaultPort(url.scheme?.lowercased())
        return "\(HostName.canonical(of: url)):\(port)"
    }

    /// A host as a user names it, with or without a port, spelled as in `name(of:)`.
    static func named(_ text: String) -> String {
        guard let url = URL(string: "http://\(text)/"), url.host() != nil else { return text.lowercased() }
        let host = HostName.canonical(of: url)
        return url.port.map { "\(host):\($0)" } ?? host
    }

    private static func defaultPort(_ scheme: String?) -> Int {
        switch scheme {
        case "http": 80
        case "ftp": 21
        default: 443
        }
    }

    /// Whether a host is one of these, each of which has its port or stands for all ports.
    ///
    /// - Parameter name: `host:port`.
    static func isAmong(_ name: String, of hosts: Set<String>) -> Bool {
        if hosts.contains(name) { return true }
        guard let colon = name.lastIndex(of: ":") else { return false }
        return hosts.contains(String(name[..<colon]))
    }
}

extension Job {
    /// The host of the source as in host limits, `host:port`; nil if the source has none, or if only the workers know
    /// it, as with `s3:`.
    package var host: String? { Self.host(ofSource: source) }

    /// As ``host``, of the source of an outcome.
    package static func host(ofSource source: String) -> String? {
        // Compared before the source is parsed as a URL: a data: URL may have a megabyte.
        let beginning = String(decoding: source.utf8.prefix("https:".utf8.count), as: UTF8.self).lowercased()
        guard beginning.hasPrefix("http:") || beginning == "https:", let url = URL(string: source) else { return nil }
        return OriginHost.name(of: url)
    }
}
