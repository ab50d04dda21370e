import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// An output of a job, as far as it is known before the job has run.
enum PlannedOutput {
    case file(path: String, Rendition)
    /// Only the coordinator or the worker knows the path, or whether there is such an object; with a text that stands
    /// for it.
    case unknown(String)
    /// The output stays in the cache.
    case cached(String)
    /// A member of a shard.
    case member(name: String, Rendition)

    /// The path, or the text that stands for it.
    var text: String {
        switch self {
        case .file(let text, _), .unknown(let text), .cached(let text), .member(let text, _): text
        }
    }

    /// The rendition of an output that is known.
    var rendition: Rendition? {
        switch self {
        case .file(_, let rendition), .member(_, let rendition): rendition
        case .unknown, .cached: nil
        }
    }

    /// All outputs of a job that become members of a shard; one for all those of the coordinator's preset.
    static func members(of job: Job) -> [PlannedOutput] {
        guard job.kind == .process else { return [] }
        if let preset = job.preset { return [.unknown("a shard, by the preset \(preset)")] }
        let renditions = job.renditions ?? Job.defaultRenditions
        let key = ShardSample.key(of: job.id ?? "")
        return renditions.map { rendition in
            let name = ShardSample.name(rendition.name, rendition.format, of: key, isOnly: renditions.count == 1)
            return .member(name: name, rendition)
        }
    }

    /// All outputs of a job; one for all those of the coordinator's preset.
    ///
    /// - Throws: `JobError` if the output of the job is not a template.
    static func all(of job: Job) throws(JobError) -> [PlannedOutput] {
        guard job.kind == .process else { return [.cached("the cache, as it was fetched")] }
        let renditions = job.renditions ?? Job.defaultRenditions
        guard let output = job.output else {
            if let preset = job.preset { return [.cached("the cache, by the preset \(preset)")] }
            return renditions.map { .cached("the cache, \($0.name).\($0.format.fileExtension)") }
        }
        let template = try OutputTemplate(output)
        // Neither the outputs of the coordinator's preset nor the size of the result are known here.
        if job.preset != nil { return [.unknown(output)] }
        if template.usesSize {
            return renditions.map { rendition in
                .unknown(
                    output.replacingOccurrences(of: "{name}", with: rendition.name)
                        .replacingOccurrences(of: "{ext}", with: rendition.format.fileExtension)
                )
            }
        }
        let size = PixelSize(width: 0, height: 0)
        return renditions.map { rendition in
            let path = template.path(
                source: job.source,
                rendition: rendition,
                size: size,
                id: job.id,
                labels: job.labels
            )
            return template.bucket == nil ? .file(path: path, rendition) : .unknown(path)
        }
    }

    /// The path of a source that is a file of this machine; nil for any other source.
    static func file(ofSource source: String) -> String? {
        guard source.prefix(5).lowercased() == "file:", let url = URL(string: source), url.isFileURL else { return nil }
        let path = url.path(percentEncoded: false)
        return path.isEmpty ? nil : path
    }

    /// Whether a source names a file by bytes that are not UTF-8: a worker fails it as `invalid_url`.
    static func isUnreadable(_ source: String) -> Bool {
        guard source.prefix(5).lowercased() == "file:", let url = URL(string: source) else { return false }
        return url.path(percentEncoded: false).isEmpty && !url.path(percentEncoded: true).isEmpty
    }
}
