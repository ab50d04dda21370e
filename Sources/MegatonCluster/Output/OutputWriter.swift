internal import Foundation
internal import MegatonPipeline

/// Writes results to the places that a job's output names, by the scheme of its template: files or objects.
struct OutputWriter: Sendable {
    let files: FileOutput
    /// Nil if the worker may write to no bucket.
    let objects: ObjectOutput?

    /// Writes all of the results, or none if one of them would replace something that must stay.
    ///
    /// - Parameters:
    ///   - results: with absolute paths, or URLs of objects.
    ///   - template: the job's output.
    /// - Returns: paths of files, and URLs of objects, that were made from a newer original and stay.
    /// - Throws: `.forbidden`, `.outputExists`, `.diskFull` or `.outputFailed`, or `.cancelled`.
    func write(
        _ results: [(path: String, response: RenditionResponse)],
        of job: Job,
        to template: OutputTemplate
    ) async throws(ImagePipeline.Error) -> [String] {
        let source = URL(string: job.source)
        let replacement = job.replace ?? .images
        if template.bucket == nil {
            return try await files.write(
                results.map { ($0.path, $0.response.data) },
                replacing: replacement,
                source: source.flatMap { $0.isFileURL ? $0.path(percentEncoded: false) : nil },
                versions: results.map { OutputVersion($0.response) }
            )
        }
        guard let objects else {
            throw ImagePipeline.Error(
                .forbidden,
                "The output \(results.first?.path ?? "") is an object, and this worker may write to no bucket; "
                    + "\(ObjectOutput.remedy)."
            )
        }
        let places = try results.map { result throws(ImagePipeline.Error) in
            try ObjectOutput.Object(
                location: Self.location(result.path),
                data: result.response.data,
                format: result.response.rendition.format,
                sha256: result.response.checksum ?? Checksum.sha256(result.response.data),
                version: OutputVersion(result.response)
            )
        }
        let object = source.flatMap { $0.scheme?.lowercased() == "s3" ? try? S3Location($0) : nil }
        return try await objects.write(places, replacing: replacement, source: object)
    }

    private static func location(_ path: String) throws(ImagePipeline.Error) -> S3Location {
        do throws(ImagePipeline.Error) {
            guard let url = URL(string: path) else {
                throw ImagePipeline.Error(.invalidURL, "it is not a URL.")
            }
            return try S3Location(url)
        } catch {
            throw ImagePipeline.Error(
                .forbidden,
                "The output \(FieldProblem.quoted(path)) is no object: \(error.message)"
            )
        }
    }
}
