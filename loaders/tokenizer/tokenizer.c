typedef int rwk_placeholder;
