internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis

/// Deletes originals and renditions from the shared cache.
struct CacheRoutes: Sendable {
    let cluster: ClusterConnection
    private let purges = RequestLimit(Self.maximumPurges, of: "purges")

    /// Maximum number of purges at a time: each reads all keys of the cache, and remembers those that it counts.
    private static let maximumPurges = 2

    init(cluster: ClusterConnection) { self.cluster = cluster }

    func add(
        to read: RouterGroup<ServerContext>,
        submit: RouterGroup<ServerContext>,
        admin: RouterGroup<ServerContext>
    ) {
        admin.post("cache/purge") { request, context in try await purge(request, context) }
    }

    private func purge(_ request: Request, _ context: ServerContext) async throws -> Response {
        _ = try QueryArguments(request)
        // Before the body, which is in memory until it has been read.
        let place = try purges.enter()
        defer { withExtendedLifetime(place) {} }
        let choice = try await request.decoded(as: PurgeChoice.self)
        let purge = CachePurge(caches: cluster.caches, queue: try await cluster.queue(), logger: context.logger)
        let result = try await purge.run(choice.selection, isDryRun: choice.isDryRun)
        if !choice.isDryRun {
            let entries = result.originals + result.renditions
            context.logger.notice(
                "entries of the cache were deleted",
                metadata: context.change(["count": "\(entries)"])
            )
        }
        return try APIResponse.json(result)
    }
}

/// The body of a request that deletes entries: the selections of `megaton cache purge`.
struct PurgeChoice: Decodable {
    let selection: CacheSelection
    let isDryRun: Bool

    /// Maximum number of texts in each list.
    static let maximumTexts = 1_000

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case urls, hosts, prefixes, renditions
        case isDryRun = "dry_run"
    }

    private static let example = #"{"urls": ["https://example.org/a.jpg"], "dry_run": true}"#

    init(from decoder: any Decoder) throws {
        let fields = try decoder.fields(CodingKeys.self, isChecked: false, allowed: Self.example)
        // A null that counted as the default would delete what its client may only want to count.
        for key in fields.allKeys {
            if try fields.decodeNil(forKey: key) {
                throw FieldProblem.error(at: decoder.codingPath + [key], "is null; leave it out, or give it a value")
            }
        }
        func texts(
            _ key: CodingKeys,
            _ allowed: String,
            _ isAllowed: (String) -> Bool
        ) throws -> [String] {
            let texts = try fields.read([ListedText].self, key, allowed: "are lists of \(allowed)")?.map(\.text) ?? []
            if texts.count > Self.maximumTexts {
                throw FieldProblem.error(
                    at: decoder.codingPath + [key],
                    "has \(texts.count) texts; allowed are \(Self.maximumTexts)"
                )
            }
            if let other = texts.first(where: { !isAllowed($0) }) {
                throw FieldProblem.error(
                    at: decoder.codingPath + [key],
                    "has \(FieldProblem.quoted(other)); allowed are \(allowed)"
                )
            }
            return texts
        }
        let urls = try texts(.urls, "URLs such as https://example.org/a.jpg") { text in
            let url = URL(string: text)
            return url?.scheme != nil && url?.host() != nil
        }
        let hosts = try texts(.hosts, "hosts such as example.org and example.org:8080") { text in
            !text.isEmpty && !text.contains { "/@".contains($0) }
        }
        let prefixes = try texts(.prefixes, "beginnings of URLs such as https://example.org/2026/") { text in
            text.contains("://") && !text.contains("?")
        }
        let renditions = try texts(.renditions, "names of renditions") { !$0.isEmpty }
        if urls.isEmpty && hosts.isEmpty && prefixes.isEmpty && renditions.isEmpty {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "names no urls, hosts, prefixes or renditions; it must be like \(Self.example)"
            )
        }
        selection = CacheSelection(
            urls: urls.compactMap { URL(string: $0) },
            hosts: hosts,
            prefixes: prefixes,
            renditions: renditions
        )
        isDryRun = try fields.read(Bool.self, .isDryRun, allowed: "are true and false") ?? false
    }
}
