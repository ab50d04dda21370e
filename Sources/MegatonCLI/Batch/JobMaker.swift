import Foundation
import MegatonCluster
import MegatonPipeline

/// Turns inputs into the jobs of one batch, numbered in their order.
struct JobMaker {
    let batch: String
    let renditions: [Rendition]
    /// Absolute path of the output directory; nil keeps the results in the cache.
    let output: String?
    let attempts: Int
    let priority: Job.Priority
    /// Name of the credential that sources by http, https and s3 need. Jobs in lines say for themselves.
    let credential: String?

    private var namer = OutputNamer()
    private var count = 0
    /// Whether the last job's id was made here, so that no other job of the batch has it.
    private(set) var madeID = false
    /// What was said of lines that are no jobs.
    private(set) var complaints = LineComplaints()

    init(
        batch: String,
        renditions: [Rendition],
        output: String?,
        attempts: Int,
        priority: Job.Priority,
        credential: String?
    ) {
        self.batch = batch
        self.renditions = renditions
        self.output = output
        self.attempts = attempts
        self.priority = priority
        self.credential = credential
    }

    /// The JSON to be pushed. A line that is no job is pushed as it stands: the coordinator says what is wrong with it,
    /// and the ledger has its line; where it stands only we know.
    mutating func json(for input: Input) -> Data {
        count += 1
        madeID = true
        switch input {
        case .source(let url, let place):
            let job = Job(
                id: "\(batch).\(count)",
                source: url,
                renditions: renditions,
                output: template(place, url),
                batch: batch,
                priority: priority,
                attempts: attempts,
                credential: Self.isRemote(url) ? credential : nil
            )
            return job.json()
        case .job(let line, let place):
            var job: Job
            do throws(JobError) {
                job = try Job(json: line)
            } catch {
                complaints.add(place, error)
                madeID = false
                return line
            }
            job.batch = batch
            madeID = job.id == nil
            if madeID { job.id = "\(batch).\(count)" }
            if job.kind == .process {
                if job.renditions == nil && job.preset == nil { job.renditions = renditions }
                if job.output == nil { job.output = template(Self.place(of: job.source), job.source) }
            }
            return job.json()
        }
    }

    private static func isRemote(_ source: String) -> Bool {
        ["http", "https", "s3"].contains(source.prefix { $0 != ":" }.lowercased())
    }

    private mutating func template(_ place: String, _ source: String) -> String? {
        guard let output else { return nil }
        return FileNames.fileURL("\(output)/\(namer.place(place, for: source))") + "-{name}.{ext}"
    }

    private static func place(of source: String) -> String {
        guard let url = URL(string: source) else { return OutputPlace.hash(source) }
        switch url.scheme?.lowercased() {
        case "http", "https", "s3": return OutputPlace.of(url)
        case "data": return "data-\(OutputPlace.hash(source))"
        default:
            return OutputPlace.of(FileNames.components(of: url))
        }
    }
}
