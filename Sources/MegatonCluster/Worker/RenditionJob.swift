internal import Foundation
internal import MegatonPipeline

/// The job that makes one rendition for requests that wait for it.
///
/// Its id is a digest of the rest, so that all processes push the same JSON for a rendition: the queue does such a job
/// once while it is alive, and, by its idempotency key, for a short time afterwards. A rendition whose cache entry is
/// stale has another id for each version of the entry.
struct RenditionJob: Sendable {
    let id: String
    let json: Data

    /// Seconds from its admission for which the queue remembers its outcome: longer than a request waits for it, and
    /// not so long that a failed source, or an entry that was purged, waits for its next job for long.
    private static let memory = 30

    /// Sources that workers load as this process would. Local files and the data in a URL are none.
    private static let schemes: Set<String> = ["http", "https", "s3"]

    /// - Parameters:
    ///   - rendition: with all options that decide its key in the cache.
    ///   - version: that of the stale cache entry; nil if there is no entry.
    init(_ rendition: Rendition, of url: URL, replacing version: String?) {
        // The pipeline of this process would make one attempt too.
        var job = Job(source: url.absoluteString, renditions: [rendition], priority: .high, attempts: 1)
        job.facts = []
        job.idempotencyTTL = Self.memory
        let digest = Checksum.sha256(job.json() + Data((version ?? "").utf8))
        id = Job.imagePrefix + digest.prefix(32)
        job.id = id
        job.idempotencyKey = id
        json = job.json()
    }

    /// Whether workers can load the source.
    static func isPossible(for url: URL) -> Bool { url.scheme.map { schemes.contains($0.lowercased()) } ?? false }
}

extension Job {
    /// Beginning of the ids and idempotency keys of the jobs that make images for requests.
    static let imagePrefix = "megaton-image-"

    /// A fault of a job that another program pushes: its id, or its idempotency key, could be that of an image. The
    /// requests for the image would have the outcome of this job.
    ///
    /// Programs that write to the lists of Redis are trusted; the clients of the HTTP API need not be.
    package var imageNameProblem: FieldProblem? {
        // The ids of a batch are known in it only.
        let names = [(CodingKeys.id, batch == nil ? id : nil), (.idempotencyKey, idempotencyKey)]
        guard let name = names.first(where: { $0.1?.hasPrefix(Self.imagePrefix) == true }) else { return nil }
        let problem = "begins with \(Self.imagePrefix), which is reserved for the images of the server"
        return FieldProblem(name.0.rawValue, problem)
    }
}
