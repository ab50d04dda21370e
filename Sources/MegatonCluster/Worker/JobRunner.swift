internal import Foundation
package import MegatonPipeline

/// Runs a job: fetches its source, renders and delivers.
package struct JobRunner: JobRunning {
    let pipeline: ImagePipeline
    /// Credentials of the pipeline's loader.
    let credentials: Credentials
    let output: FileOutput
    let statistics: StatisticsRecorder
    /// Writes outputs to S3; nil refuses them.
    var objects: ObjectOutput?
    /// Damage of a source that is an error, if neither the rendition nor the job specifies it.
    var failOn = Rendition.FailOn.truncated
    /// As ``Worker/Configuration/optionNames``.
    var optionNames: [String: String] = [:]
    /// Whether another job names the source: see `Worker.Configuration.isSourceShared`.
    var isSourceShared: @Sendable (Job) -> Bool = { _ in false }
    /// The shared cache that the pipeline bypasses (`--cache-policy none`), whose outdated entries are deleted.
    var bypassedCache: InFlightLock?

    /// Result of an attempt.
    package enum Result: Sendable {
        case done([JobOutcome.Output])
        case failed(ImagePipeline.Error)
    }

    package func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> Result {
        do throws(ImagePipeline.Error) {
            guard let url = URL(string: job.source) else {
                // Without the parts that may be secret.
                throw ImagePipeline.Error(
                    .invalidURL,
                    "The source \(FieldProblem.quoted(job.source)) is not a URL; spaces and other special characters "
                        + "must be percent-encoded."
                )
            }
            var request = try imageRequest(for: job, at: url)
            request.maximumFailureAge = maximumFailureAge
            defer { statistics.add(metrics.counts, of: url) }
            guard job.kind == .process else {
                try await pipeline.prefetch(request, metrics: metrics)
                return .done([])
            }
            let renditions = (job.renditions ?? Job.defaultRenditions).map { rendition in
                var rendition = rendition
                rendition.failOn = rendition.failOn ?? job.failOn ?? failOn
                return rendition
            }
            // Before the source is fetched.
            let template = try Self.template(of: job)
            let responses = try await pipeline.renditions(renditions, for: request, metrics: metrics)
            for response in responses { metrics.add(notes: response.notes) }
            metrics.facts = Self.facts(of: responses, for: job)
            let outputs = try await deliver(responses, of: job, to: template, metrics: metrics)
            // Last, as the number of notes is limited.
            metrics.add(notes: responses.flatMap(Self.scoreNotes))
            await supersede(outputs, responses, request)
            return .done(outputs)
        } catch {
            return .failed(named(error))
        }
    }

    /// A note about an image that no quality brings to its `targetScore`, or none that `maxBytes` allows.
    private static func scoreNotes(of response: RenditionResponse) -> [String] {
        guard let target = response.rendition.targetScore, let score = response.score, score < target else { return [] }
        let rounded = (score * 10).rounded(.down) / 10
        return ["\(response.rendition.name) has the score \(rounded), the highest that was found, below \(target)."]
    }

    /// The facts that the job wants. If a rendition was made now, they are about the source as it is now.
    private static func facts(of responses: [RenditionResponse], for job: Job) -> SourceFacts? {
        if let wanted = job.facts, wanted.isEmpty { return nil }
        let known = responses.filter { $0.facts != nil }
        let wanted = job.facts ?? []
        return (known.first { $0.source == .render } ?? known.first)?.facts?
            .keeping(exif: wanted.contains(.exif), perceptualHash: wanted.contains(.phash))
    }

    /// Deletes outdated entries from a cache that the pipeline bypasses, so that a later job with the cache does not
    /// bring the former images back. After the new ones were delivered: until then the former ones are the best.
    private func supersede(
        _ outputs: [JobOutcome.Output],
        _ responses: [RenditionResponse],
        _ request: ImageRequest
    ) async {
        guard let bypassedCache, let version = responses.first?.original, version.fetched != nil else { return }
        let made = zip(responses, outputs).compactMap { response, output in
            response.cacheKey.map { (key: $0, sha256: output.sha256) }
        }
        await bypassedCache.supersede(.original(of: request), made, by: version)
    }

    /// Names the program's options in an error message, in the place of the library's settings.
    private func named(_ error: ImagePipeline.Error) -> ImagePipeline.Error {
        var error = error
        error.message = Self.naming(optionNames, in: error.message)
        return error
    }

    /// A message with the program's words for the library's settings that it names.
    package static func naming(_ optionNames: [String: String], in message: String) -> String {
        var message = message
        for (setting, option) in optionNames where message.contains(setting) {
            message = message.replacingOccurrences(of: setting, with: option)
        }
        return message
    }

    private func imageRequest(for job: Job, at url: URL) throws(ImagePipeline.Error) -> ImageRequest {
        var request = try credentialedRequest(for: job, at: url)
        // A job that only fetches does so for the jobs that follow.
        request.expectsReuse = job.kind != .process || isSourceShared(job)
        if job.reload == true { request.options.insert(.reloadIgnoringCachedData) }
        if job.refresh == true, job.reload != true { request.refresh() }
        return request
    }

    private func credentialedRequest(for job: Job, at url: URL) throws(ImagePipeline.Error) -> ImageRequest {
        // Before any cache lookup: access to a source must not depend on the content of the caches.
        if let name = job.credential { try credentials.check(name, for: url) }
        return job.request(at: url)
    }

    /// The template of a job's output, for which the job has all labels; nil without one.
    private static func template(of job: Job) throws(ImagePipeline.Error) -> OutputTemplate? {
        do throws(JobError) {
            guard let output = job.output else { return nil }
            let template = try OutputTemplate(output)
            if let problem = template.problem(with: job.labels) { throw JobError("\(problem).") }
            return template
        } catch {
            throw ImagePipeline.Error(.forbidden, error.message)
        }
    }

    private func deliver(
        _ responses: [RenditionResponse],
        of job: Job,
        to template: OutputTemplate?,
        metrics: PipelineMetrics
    ) async throws(ImagePipeline.Error) -> [JobOutcome.Output] {
        let paths = responses.map { response in
            template?.path(
                source: job.source,
                rendition: response.rendition,
                size: response.size,
                id: job.id,
                labels: job.labels
            )
        }
        if let template {
            guard Set(paths).count == paths.count else {
                throw ImagePipeline.Error(
                    .forbidden,
                    "Two renditions have the same output path; add {name} to the template."
                )
            }
            let results = zip(paths, responses).map { (path: $0 ?? "", response: $1) }
            let kept = try await metrics.timing(\.storing) { () async throws(ImagePipeline.Error) -> [String] in
                try await metrics.inSpan(.store) { () async throws(ImagePipeline.Error) -> [String] in
                    let writer = OutputWriter(files: output, objects: objects)
                    return try await writer.write(results, of: job, to: template)
                } facts: { (result: Swift.Result<[String], ImagePipeline.Error>) in
                    var facts = SpanFacts(result) { facts, _ in
                        facts.bytes = responses.reduce(0) { $0 + $1.data.count }
                    }
                    facts.formats = responses.map { $0.rendition.format.rawValue }
                    return facts
                }
            }
            metrics.add(notes: kept.map { "\($0) was made from a newer original and stays." })
        }
        return zip(paths, responses).map { path, response in
            JobOutcome.Output(
                name: response.rendition.name,
                path: path,
                width: response.size.width,
                height: response.size.height,
                format: response.rendition.format,
                bytes: response.data.count,
                sha256: response.checksum ?? Checksum.sha256(response.data),
                from: response.source,
                score: response.score.map { ($0 * 100).rounded(.down) / 100 },
                cacheKey: path == nil ? response.cacheKey?.digest : nil,
                options: path == nil ? nil : JobOutcome.Output.digest(ofOptions: response.rendition)
            )
        }
    }
}

/// Runs a job, without knowledge of leases and queues.
package protocol JobRunning: Sendable {
    /// Runs one attempt.
    ///
    /// - Parameters:
    ///   - maximumFailureAge: maximum age of a remembered failure that may answer the attempt; nil for any age.
    ///   - metrics: records the cost of the attempt, also if it fails.
    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result
}
