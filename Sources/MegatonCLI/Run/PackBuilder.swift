import Foundation
import MegatonCluster
import MegatonRedis

/// Forms packs of the jobs of one batch: neighbors that differ only in source, id and output.
///
/// Only jobs whose ids were made here are packed, as others may occur twice, and no job with labels or an idempotency
/// key. The first jobs of a batch stay single, so that a small batch is spread over all workers.
struct PackBuilder {
    /// The jobs and packs to push.
    struct Pushed {
        let json: Data
        /// The first job; nil for a text that is none.
        let first: Job?
        /// Number of sources; 1 for a single job.
        let sources: Int
        let hasUniqueID: Bool
    }

    /// Maximum number of sources of a pack; at most 1 for none.
    private let size: Int
    /// Number of jobs after which packs are formed.
    private let start: Int
    private var count = 0
    /// Whether there has been a pack.
    private(set) var hasFormed = false
    /// Whether a chunk of jobs was to become packs: those of a list with labels cannot.
    private var hasTried = false

    /// Whether the next jobs become packs, as far as that is known.
    var isForming: Bool { size > 1 && count >= start && (hasFormed || !hasTried) }

    /// Size of packs if none is asked for, and the number of jobs after which they are formed then: by then each worker
    /// of a large fleet has jobs.
    private static let automatic = (size: 64, start: 4096)
    /// Longer sources, such as `data:` URLs, stay single.
    private static let longestSource = 2048
    /// Maximum size in bytes of a pack as single jobs: far less than a coordinator accepts, as that puts renditions in
    /// the place of a preset.
    private static let longestPack = 512 * 1024

    /// - Parameter size: sources in a pack, 0 or 1 for none; nil forms packs in large batches only.
    init(size: Int?) {
        self.size = min(size ?? Self.automatic.size, Pack.maximumSources)
        start = size == nil ? Self.automatic.start : 0
    }

    /// The jobs of one chunk as they are pushed, in order for each shard: a pack is for one.
    mutating func pack(_ jobs: [JobBuilder.BuiltJob], _ layout: ShardLayout = ShardLayout()) -> [Pushed] {
        defer { count += jobs.count }
        guard size > 1, count >= start else { return jobs.map(Self.single) }
        let pushed = formed(of: jobs, layout)
        hasFormed = hasFormed || pushed.contains { $0.sources > 1 }
        hasTried = hasTried || jobs.count > 1
        return pushed
    }

    private func formed(of jobs: [JobBuilder.BuiltJob], _ layout: ShardLayout) -> [Pushed] {
        if layout.count == 1 { return packed(jobs) }
        let shards = Dictionary(grouping: jobs) { built in
            built.job.map { ShardedSubmitter.shard(of: $0, layout) } ?? 0
        }
        return shards.sorted { $0.key < $1.key }.flatMap { packed($0.value) }
    }

    private func packed(_ jobs: [JobBuilder.BuiltJob]) -> [Pushed] {
        var pushed: [Pushed] = []
        var (group, groupShared): ([(built: JobBuilder.BuiltJob, job: Job)], Job?) = ([], nil)
        var (sharedBytes, bytes) = (0, 0)
        func close() {
            pushed += Self.pushed(group)
            (group, bytes) = ([], 0)
        }
        for built in jobs {
            guard let job = Self.candidate(built) else {
                close()
                pushed.append(Self.single(built))
                continue
            }
            let shared = Self.shared(of: job)
            if shared != groupShared {
                close()
                (groupShared, sharedBytes) = (shared, shared.json().count)
            }
            let own = sharedBytes + job.source.utf8.count + (job.output?.utf8.count ?? 0)
            let isFull = group.count == size || bytes + own > Self.longestPack
            if isFull || group.last?.job.host != job.host { close() }
            bytes += own
            group.append((built: built, job: job))
        }
        close()
        return pushed
    }

    private static func candidate(_ built: JobBuilder.BuiltJob) -> Job? {
        guard case .job(let job, hasUniqueID: true) = built, job.labels == nil, job.refused == nil,
            job.idempotencyKey == nil, job.source.utf8.count <= longestSource, packID(job) != nil
        else { return nil }
        return job
    }

    /// The id of a pack that begins with this job; nil if it would be too long.
    private static func packID(_ first: Job) -> String? {
        first.id.flatMap { $0.utf8.count <= 120 ? $0 + ".p" : nil }
    }

    private static func shared(of job: Job) -> Job {
        var job = job
        (job.id, job.source, job.output) = (nil, "", nil)
        return job
    }

    private static func pushed(_ group: [(built: JobBuilder.BuiltJob, job: Job)]) -> [Pushed] {
        guard group.count > 1, let first = group.first?.job, let id = packID(first) else {
            return group.map { single($0.built) }
        }
        var shared = Self.shared(of: first)
        shared.id = id
        let sources = group.map { Pack.Source(id: $0.job.id ?? "", source: $0.job.source, output: $0.job.output) }
        let pack = Pack(sharing: shared, sources: sources)
        guard pack.isWithinLimits else { return group.map { single($0.built) } }
        return [Pushed(json: pack.json(), first: first, sources: sources.count, hasUniqueID: true)]
    }

    /// A job that stays single.
    static func single(_ built: JobBuilder.BuiltJob) -> Pushed {
        Pushed(json: built.json, first: built.job, sources: 1, hasUniqueID: built.hasUniqueID)
    }
}

extension ShardedSubmitter {
    func add(_ pushed: PackBuilder.Pushed, isUrgent: Bool = false) async throws(RedisError) {
        try await add(
            pushed.json,
            job: pushed.first,
            sources: pushed.sources,
            hasUniqueID: pushed.hasUniqueID,
            isUrgent: isUrgent
        )
    }
}
