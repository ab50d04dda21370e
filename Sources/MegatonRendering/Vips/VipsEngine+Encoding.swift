package import Foundation

extension VipsEngine {
    /// Encodes an image.
    ///
    /// - Throws: `.encodingFailed`, `.renderTimedOut`.
    package func encode(
        _ image: PlatformImage,
        _ options: EncodingOptions,
        _ background: Color,
        _ deadline: RenderDeadline
    ) throws(ImageError) -> Data {
        let stop = VipsImage.Stop(deadline)
        let result: Result<Data, VipsError> = VipsMessages.collecting {
            do throws(VipsError) {
                var picture = image.picture
                if picture.hasAlpha && !options.format.hasAlpha {
                    picture = try picture.flatten(background: background.channels(grey: picture.bands <= 2))
                }
                // Encodes a copy, because progress handlers must not stay on a shared image.
                return .success(try picture.keeping([]).encode(options, stop: stop))
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let data): return data
        case .failure(let error):
            throw deadline.error
                ?? ImageError(.encodingFailed, "\(options.format.rawValue) cannot be written: \(error.text).")
        }
    }
}
