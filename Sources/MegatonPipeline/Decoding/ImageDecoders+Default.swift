public import Foundation
import Synchronization

extension ImageDecoders {
    /// Decodes what the pipeline reads: upright, 8 bits a channel, in sRGB or grey, the first frame of several.
    ///
    /// Its limits are checked by the header, before a pixel is decoded. Of a request with a thumbnail the formats that
    /// can are read at a fraction of their size. Of GIFs and animations the container keeps the bytes.
    ///
    /// One for each picture: it knows how much of an unfinished one it has shown.
    public final class Default: ImageDecoding {
        /// In a container's `userInfo`: how many scans a preview of a progressive JPEG has, an `Int`.
        public static let scanNumberKey = "megaton/scan-number"

        private let limits: RenderLimits
        private let types: Set<AssetType>
        private let thumbnail: ImageRequest.ThumbnailOptions?
        private let previewPolicy: ImagePipeline.PreviewPolicy?
        private let engine = VipsEngine()
        /// Scans or bytes of the last preview.
        private let shown = Mutex(0)

        /// - Parameters:
        ///   - types: what is decoded, told from the bytes.
        ///   - thumbnail: decodes a smaller picture.
        ///   - previewPolicy: nil is `PreviewPolicy.default(for:)`.
        public init(
            limits: RenderLimits = RenderLimits(),
            types: Set<AssetType> = AssetType.supported,
            thumbnail: ImageRequest.ThumbnailOptions? = nil,
            previewPolicy: ImagePipeline.PreviewPolicy? = nil
        ) {
            self.limits = limits
            self.types = types
            self.thumbnail = thumbnail
            self.previewPolicy = previewPolicy
        }

        /// - Throws: `ImagePipeline.Error`: `.unsupportedFormat`, `.corruptImage`, a limit's code, `.renderTimedOut`.
        public func decode(_ data: Data) throws -> ImageContainer {
            try decode(data, plan(data), RenderDeadline(.now + limits.time))
        }

        /// What is to be decoded, from the header, within the limits.
        func plan(_ data: Data) throws(ImagePipeline.Error) -> RenderPlan {
            RenderPlan(decoding: try limits.probe(data, types.sniff(data), engine), as: thumbnail)
        }

        func decode(
            _ data: Data,
            _ plan: RenderPlan,
            _ deadline: RenderDeadline
        ) throws(ImagePipeline.Error) -> ImageContainer {
            let keepsData = thumbnail == nil && (plan.probe.type == .gif || plan.probe.isAnimated)
            return ImageContainer(
                image: try engine.picture(plan, data, deadline: deadline),
                type: plan.probe.type,
                data: keepsData ? data : nil
            )
        }

        // MARK: - Previews

        public func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? {
            preview(of: data, RenderDeadline(.now + limits.time)) { _, decode throws(ImagePipeline.Error) in
                try decode()
            }
        }

        /// Decodes a preview where there is memory for it, and nothing otherwise.
        typealias Admission = (
            _ cost: RenderCost,
            _ decode: () throws(ImagePipeline.Error) -> PlatformImage
        ) throws(ImagePipeline.Error) -> PlatformImage?

        /// - Parameter admit: is told what it would cost.
        func preview(of data: Data, _ deadline: RenderDeadline, _ admit: Admission) -> ImageContainer? {
            guard AssetType(data) == .jpeg, types.contains(.jpeg) else { return nil }
            return switch previewPolicy ?? .default(for: data) {
            case .incremental: incrementalPreview(data, deadline, admit)
            case .thumbnail: embeddedThumbnail(data, deadline, admit)
            case .disabled: nil
            }
        }

        private func incrementalPreview(
            _ data: Data,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> ImageContainer? {
            let scans = JPEGScans(data)
            guard scans.count > 0 else { return nil }
            // The last scan is the one that is coming. Another preview of the same scans would show nothing new.
            let isNew = shown.withLock { shown in
                let seen = scans.isProgressive ? scans.count - 1 : data.count
                defer { shown = max(shown, seen) }
                return seen > shown
            }
            guard isNew, let image = preview(data, as: thumbnail, deadline, admit) else { return nil }
            return ImageContainer(
                image: image,
                type: .jpeg,
                isPreview: true,
                userInfo: scans.isProgressive ? [Self.scanNumberKey: scans.count - 1] : [:]
            )
        }

        private func embeddedThumbnail(
            _ data: Data,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> ImageContainer? {
            guard shown.withLock({ $0 == 0 }), let (small, orientation) = engine.embeddedThumbnail(data) else {
                return nil
            }
            shown.withLock { $0 = 1 }
            guard let image = preview(small, as: nil, orientation: orientation, deadline, admit) else { return nil }
            return ImageContainer(image: image, type: .jpeg, isPreview: true)
        }

        /// Nil where it cannot be shown: a preview that fails is no failure of its picture.
        private func preview(
            _ data: Data,
            as thumbnail: ImageRequest.ThumbnailOptions?,
            orientation: Int? = nil,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> PlatformImage? {
            do throws(ImagePipeline.Error) {
                let plan = try engine.planPartly(data, limits, as: thumbnail, orientation: orientation)
                return try admit(plan.cost) { () throws(ImagePipeline.Error) in
                    try engine.picture(plan, data, failOn: .nothing, orientation: orientation, deadline: deadline)
                }
            } catch {
                return nil
            }
        }
    }
}
